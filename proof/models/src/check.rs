//! Explores a model and compares what was found with what was expected.

use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Property};

/// Both cores of a small machine.
const THREADS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Every state that can be reached was visited, so many, and none breaks a property.
    Holds(usize),
    /// A negative control: the checker must find how the bug that was planted breaks this property.
    Violates(&'static str),
}

/// A state that should be reachable: where it is not, the properties promise nothing.
pub(crate) type Goal<S> = (&'static str, fn(&S) -> bool);

/// A model of the protocol whose properties must hold always.
pub(crate) trait Proof:
    Model<
        State: Clone + PartialEq + Debug + Hash + Send + Sync + 'static,
        Action: Clone + PartialEq + Debug,
    > + Copy
    + Send
    + Sync
    + 'static
{
    const NAME: &'static str;

    /// What keeps the number of states finite.
    fn bound(&self) -> String;

    fn goals(&self) -> Vec<Goal<Self::State>>;
}

/// One variant of a model, with its bounds.
pub(crate) struct Case {
    pub(crate) model: &'static str,
    pub(crate) variant: &'static str,
    pub(crate) bound: String,
    pub(crate) expected: Expected,
    explore: Box<dyn FnOnce() -> Found>,
}

/// What an exploration came to.
pub(crate) struct Found {
    pub(crate) unique: usize,
    /// Steps of the longest path that had to be walked.
    pub(crate) depth: usize,
    pub(crate) took: Duration,
    counterexample: Option<Counterexample>,
    /// A goal that is not reachable.
    unreached: Option<&'static str>,
}

struct Counterexample {
    property: &'static str,
    steps: Vec<String>,
}

impl Case {
    /// `states`: how many the model has. Another number means that it has changed: was that meant?
    pub(crate) fn holds<M: Proof>(variant: &'static str, states: usize, model: M) -> Self {
        Self::new(variant, Expected::Holds(states), model)
    }

    pub(crate) fn violates<M: Proof>(
        variant: &'static str,
        property: &'static str,
        model: M,
    ) -> Self {
        Self::new(variant, Expected::Violates(property), model)
    }

    fn new<M: Proof>(variant: &'static str, expected: Expected, model: M) -> Self {
        let explore = Box::new(move || explore(model, expected));
        Self { model: M::NAME, variant, bound: model.bound(), expected, explore }
    }

    pub(crate) fn run(self) -> Found {
        (self.explore)()
    }
}

impl Found {
    pub(crate) fn is(&self, expected: Expected) -> bool {
        match expected {
            Expected::Holds(states) => {
                self.counterexample.is_none() && self.unreached.is_none() && self.unique == states
            }
            Expected::Violates(property) => {
                self.counterexample.as_ref().is_some_and(|found| found.property == property)
            }
        }
    }

    /// What is broken, and how to get there; or what can never be reached.
    pub(crate) fn story(&self) -> impl Iterator<Item = String> {
        let property =
            self.counterexample.iter().map(|found| format!("not so: {}", found.property));
        let steps = self.counterexample.iter().flat_map(|found| found.steps.iter().cloned());
        let unreached = self.unreached.iter().map(|goal| format!("it never happens that {goal}"));
        property.chain(steps).chain(unreached)
    }
}

impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.counterexample, self.unreached) {
            (Some(found), _) => write!(f, "violated, {} steps", found.steps.len()),
            (None, Some(_)) => f.write_str("empty"),
            (None, None) => f.write_str("holds"),
        }
    }
}

impl Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Holds(_) => "holds",
            Self::Violates(_) => "violated",
        })
    }
}

/// Breadth first, to the end or to the first counterexample. With one thread that is a short one,
/// and the same in each run; what holds is explored by all cores.
fn explore<M: Proof>(model: M, expected: Expected) -> Found {
    let (threads, until) = match expected {
        Expected::Holds(_) => (THREADS, HasDiscoveries::AnyFailures),
        Expected::Violates(property) => (1, HasDiscoveries::AnyOf([property].into())),
    };
    let began = Instant::now();
    let checker = model.checker().threads(threads).finish_when(until).spawn_bfs().join();
    let (unique, depth) = (checker.unique_state_count(), checker.max_depth() - 1);
    let mut broken = checker.discoveries();
    let wanted = match expected {
        Expected::Violates(property) => broken.remove_entry(property),
        Expected::Holds(_) => broken.into_iter().next(),
    };
    drop(checker);
    let counterexample = wanted.map(|(property, path)| {
        let condition = model.property(property).condition;
        // Some states further on the way the property may be broken still.
        let path = path.into_vec().into_iter().take_while(|(state, _)| condition(&model, state));
        let steps = path.filter_map(|(_, action)| action).map(|action| format!("{action:?}"));
        Counterexample { property, steps: steps.collect() }
    });
    let goals = if counterexample.is_none() { model.goals() } else { Vec::new() };
    let unreached = goals.into_iter().find(|goal| !is_reachable(model, *goal));
    let (took, unreached) = (began.elapsed(), unreached.map(|(name, _)| name));
    Found { unique, depth, took, counterexample, unreached }
}

fn is_reachable<M: Proof>(model: M, goal: Goal<M::State>) -> bool {
    let checker = Search { model, goal }.checker().finish_when(HasDiscoveries::Any);
    !checker.spawn_bfs().join().discoveries().is_empty()
}

/// The same model, explored until its goal is reached.
struct Search<M: Model> {
    model: M,
    goal: Goal<M::State>,
}

impl<M: Model> Model for Search<M> {
    type State = M::State;
    type Action = M::Action;

    fn init_states(&self) -> Vec<M::State> {
        self.model.init_states()
    }

    fn actions(&self, state: &M::State, actions: &mut Vec<M::Action>) {
        self.model.actions(state, actions);
    }

    fn next_state(&self, last: &M::State, action: M::Action) -> Option<M::State> {
        self.model.next_state(last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::sometimes("the goal", |search, state| (search.goal.1)(state))]
    }
}
