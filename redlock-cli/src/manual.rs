//! Completion scripts and the manual page, made from the command line's own description.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output::say;

const EXIT_CODES: &str = r#".SH "EXIT CODES OF RUN"
That of the command, 128 + n where signal n ended it, or
.TP
\fB64\fR
The command line or a setting is wrong.
.TP
\fB69\fR
Redis cannot be reached, or refuses.
.TP
\fB71\fR
The operating system refused what redlock itself needs.
.TP
\fB75\fR
Another process has the lock; \fB\-E\fR names another code.
.TP
\fB76\fR
The lock was lost, and the command was ended; or the command ended with 0, and the release found
that the lock had been lost before, or did not find out whether it was held to the end.
.TP
\fB126\fR, \fB127\fR
The command cannot be run; it was not found.
"#;

pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "redlock", &mut script);
    say(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// How to write a command, line by line.
fn usage(mut command: clap::Command) -> String {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").replace('\\', "\\\\").replace('-', "\\-");
    let lines: Vec<&str> = usage.lines().map(str::trim).collect();
    format!(".SS SYNOPSIS\n.nf\n{}\n.fi\n", lines.join("\n"))
}

/// One page for all commands.
pub(crate) fn page() -> Result<u8, Failure> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    let main = clap_mangen::Man::new(command.clone());
    main.render_title(&mut page)?;
    main.render_name_section(&mut page)?;
    main.render_synopsis_section(&mut page)?;
    main.render_description_section(&mut page)?;
    main.render_options_section(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let title = format!("redlock {}", sub.get_name()).to_uppercase();
        page.extend_from_slice(format!(".SH \"{title}\"\n").as_bytes());
        page.extend_from_slice(usage(sub.clone()).as_bytes());
        let sub = clap_mangen::Man::new(sub.clone());
        let mut body = Vec::new();
        sub.render_description_section(&mut body)?;
        sub.render_options_section(&mut body)?;
        let body = String::from_utf8_lossy(&body);
        page.extend_from_slice(
            body.replace("\n.SH ", "\n.SS ").replacen(".SH ", ".SS ", 1).as_bytes(),
        );
    }
    page.extend_from_slice(EXIT_CODES.as_bytes());
    main.render_version_section(&mut page)?;
    say(&String::from_utf8_lossy(&page))?;
    Ok(0)
}
