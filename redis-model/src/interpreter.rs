//! Runs scripts in Lua 5.1, one interpreter for each thread, and converts values as Redis does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use mlua::{BorrowedBytes, Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use crate::reply::Reply;
use crate::script::Script;
use crate::server::Data;

struct Interpreter {
    lua: Lua,
    compiled: RefCell<HashMap<u64, Function>>,
    /// What the commands of the script that runs change.
    data: Rc<RefCell<Data>>,
}

thread_local! {
    static HERE: Interpreter = Interpreter::new().unwrap_or_else(|error| panic!("{error}"));
}

/// Runs a script on the data of a server.
pub(crate) fn run(script: &Script, data: &mut Data, keys: &[&[u8]], arguments: &[&[u8]]) -> Reply {
    HERE.with(|here| {
        std::mem::swap(&mut *here.data.borrow_mut(), data);
        let result = here.evaluate(script, keys, arguments);
        std::mem::swap(&mut *here.data.borrow_mut(), data);
        result.unwrap_or_else(|error| of_error(&error))
    })
}

/// A command of `redis.call` answered with an error.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// A collection begins when the memory is so many percent of what was left of the last one.
const GC_PAUSE: std::ffi::c_int = 1000;

/// Protects the globals, as Redis does.
const PRELUDE: &str = "
    setmetatable(_G, {
        __index = function(_, name)
            error('Script attempted to access nonexistent global variable \\'' .. name .. '\\'', 2)
        end,
        __newindex = function()
            error('Attempt to modify a readonly table', 2)
        end,
    })
";

impl Interpreter {
    fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        // A script leaves little behind: it is swept up once there is much of it.
        lua.gc_inc(GC_PAUSE, 0, 0);
        let data = Rc::new(RefCell::new(Data::default()));
        let redis = lua.create_table()?;
        for (name, raises) in [("call", true), ("pcall", false)] {
            let data = Rc::clone(&data);
            let call = move |lua: &Lua, words| call(lua, &data, &words, raises);
            redis.set(name, lua.create_function(call)?)?;
        }
        let status = |lua: &Lua, text: mlua::String| table_of(lua, "ok", &text.as_bytes());
        redis.set("status_reply", lua.create_function(status)?)?;
        let error = |lua: &Lua, text: mlua::String| table_of(lua, "err", &error(&text.as_bytes()));
        redis.set("error_reply", lua.create_function(error)?)?;
        lua.globals().set("redis", redis)?;
        lua.load(PRELUDE).exec()?;
        Ok(Self { lua, compiled: RefCell::default(), data })
    }

    fn compiled(&self, script: &Script) -> mlua::Result<Function> {
        if let Some(known) = self.compiled.borrow().get(&script.id) {
            return Ok(known.clone());
        }
        let function = self.lua.load(&*script.runs).set_name("=user_script").into_function()?;
        self.compiled.borrow_mut().insert(script.id, function.clone());
        Ok(function)
    }

    fn evaluate(&self, script: &Script, keys: &[&[u8]], args: &[&[u8]]) -> mlua::Result<Reply> {
        let function = self.compiled(script)?;
        let globals = self.lua.globals();
        for (name, words) in [("KEYS", keys), ("ARGV", args)] {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for word in words {
                table.raw_push(self.lua.create_string(word)?)?;
            }
            globals.raw_set(name, table)?;
        }
        of_value(&function.call::<Value>(())?)
    }
}

/// `redis.call`, which raises errors, and `redis.pcall`, which returns them.
fn call(lua: &Lua, data: &RefCell<Data>, words: &MultiValue, raises: bool) -> mlua::Result<Value> {
    let reply = match words.iter().map(|word| argument(lua, word)).collect::<Result<Vec<_>, _>>() {
        Ok(words) => execute(data, &words),
        Err(Unfit) => {
            Reply::error("ERR Lua redis lib command arguments must be strings or integers")
        }
    };
    match reply {
        Reply::Error(error) if raises => Err(mlua::Error::external(Raised(error))),
        reply => to_value(lua, reply),
    }
}

fn execute(data: &RefCell<Data>, words: &[Argument<'_>]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(Argument::as_bytes).collect();
    if words.is_empty() {
        return Reply::error("ERR Please specify at least one argument for this redis.call");
    }
    let done = data.borrow_mut().command(&words);
    done.unwrap_or_else(|refusal| refusal.to_script())
}

/// Neither a string nor a number.
struct Unfit;

enum Argument<'a> {
    Borrowed(BorrowedBytes<'a>),
    Owned(Vec<u8>),
}

impl Argument<'_> {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Numbers are written with seventeen digits: `tostring` has fourteen.
fn argument<'a>(lua: &Lua, word: &'a Value) -> Result<Argument<'a>, Unfit> {
    match word {
        Value::String(text) => Ok(Argument::Borrowed(text.as_bytes())),
        Value::Integer(number) if number.unsigned_abs() < 1 << 53 => {
            Ok(Argument::Owned(number.to_string().into_bytes()))
        }
        Value::Integer(_) | Value::Number(_) => {
            let format = || -> mlua::Result<mlua::String> {
                let string: Table = lua.globals().get("string")?;
                string.get::<Function>("format")?.call(("%.17g", word))
            };
            format().map(|text| Argument::Owned(text.as_bytes().to_vec())).map_err(|_| Unfit)
        }
        _ => Err(Unfit),
    }
}

fn to_value(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Status(text) => Value::Table(table_of(lua, "ok", text.as_bytes())?),
        Reply::Error(text) => Value::Table(table_of(lua, "err", text.as_bytes())?),
        #[expect(clippy::cast_precision_loss, reason = "Lua has no other numbers")]
        Reply::Int(number) => Value::Number(number as f64),
        Reply::Bulk(text) => Value::String(lua.create_string(text)?),
        Reply::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(to_value(lua, item)?)?;
            }
            Value::Table(table)
        }
    })
}

fn table_of(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(table)
}

/// An error has a code: what a script gives without one is an `ERR`.
fn error(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    if text.contains(&b' ') { text.to_vec() } else { [b"ERR ", text].concat() }
}

fn of_value(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Int(*number),
        #[expect(clippy::cast_possible_truncation, reason = "Redis truncates as well")]
        Value::Number(number) => Reply::Int(*number as i64),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => of_table(table)?,
        _ => Reply::Nil,
    })
}

/// An array ends before its first nil.
fn of_table(table: &Table) -> mlua::Result<Reply> {
    if let Value::String(text) = table.raw_get("err")? {
        return Ok(Reply::Error(text.to_string_lossy()));
    }
    if let Value::String(text) = table.raw_get("ok")? {
        return Ok(Reply::Status(text.to_string_lossy()));
    }
    let mut items = Vec::new();
    loop {
        match table.raw_get(items.len() + 1)? {
            Value::Nil => return Ok(Reply::Array(items)),
            item => items.push(of_value(&item)?),
        }
    }
}

fn of_error(error: &mlua::Error) -> Reply {
    match error {
        mlua::Error::CallbackError { cause, .. } => of_error(cause),
        mlua::Error::ExternalError(external) => match external.downcast_ref::<Raised>() {
            Some(Raised(message)) => Reply::Error(message.clone()),
            None => Reply::Error(format!("ERR {external}")),
        },
        other => {
            let message = other.to_string();
            Reply::Error(format!("ERR {}", message.lines().next().unwrap_or_default()))
        }
    }
}
