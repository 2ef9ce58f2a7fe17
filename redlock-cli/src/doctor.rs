//! `redlock doctor`: whether the servers are fit for locks.

mod checks;
mod finding;
mod rights;
mod server;

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output::{Paint, plain, say};
use crate::servers::Servers;

use finding::{Finding, Grade};

/// Prints a line a finding. The exit code is the worst grade.
pub(crate) async fn doctor(args: &DoctorArgs, servers: &Servers) -> Result<u8, Failure> {
    let mut worst = Grade::Good;
    let paint = Paint::for_stdout();
    let mut last = String::new();
    let findings = checks::all(servers).await?;
    for Finding { place, is_about_one, what, grade, text } in &findings {
        worst = worst.max(*grade);
        if args.json {
            let line = serde_json::json!({
                "server": is_about_one.then_some(place), "check": what, "grade": grade.name(),
                "text": text,
            });
            say(&format!("{line}\n"))?;
            continue;
        }
        if *place != last {
            last.clone_from(place);
            say(&format!("{}\n", paint.bold(&plain(place))))?;
        }
        let shown = format!("{:<9}", grade.name());
        let shown = match grade {
            Grade::Good => paint.green(&shown),
            Grade::Doubtful => paint.yellow(&shown),
            Grade::Bad => paint.red(&shown),
        };
        say(&format!("  {shown} {what:<12} {}\n", plain(text)))?;
    }
    Ok(worst.code())
}
