//! Questions on the terminal, and what their answers are when nobody can be asked.
//!
//! Owns the tries. Knows no setting: callers say what is asked, by which option it is said, and how an answer is read.

use crate::failure::{Outcome, cannot, usage};
use std::io::{BufRead, IsTerminal, Read, Write};

/// Longest answer in bytes: a join token is the longest.
const ANSWER_BYTES_MAX: u64 = 8192;
/// How often a question is asked.
const TRIES_MAX: u32 = 3;

/// Somebody at a terminal, or nobody.
pub(super) struct Questions {
    somebody: bool,
}

/// One question.
pub(super) struct Question<'a> {
    /// The option that says the same.
    pub(super) option: &'a str,
    /// What is asked, without a question mark.
    pub(super) text: &'a str,
    /// The answer of an empty line and of nobody.
    pub(super) default: Option<String>,
}

impl Questions {
    /// Somebody is there if standard input is a terminal, unless nothing is to be asked.
    pub(super) fn new(ask_nothing: bool) -> Self {
        Self {
            somebody: !ask_nothing && std::io::stdin().is_terminal(),
        }
    }

    /// The answer to a question.
    ///
    /// # Errors
    /// Nobody can be asked, and there is no default; or no answer can be read.
    pub(super) fn ask<T>(
        &mut self,
        question: &Question<'_>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Outcome<T> {
        if self.somebody {
            // Questions go to standard error: standard output is for what was asked for.
            return answered(question, read, std::io::stdin().lock(), std::io::stderr());
        }
        match &question.default {
            Some(default) => read(default).map_err(|why| wrong(question, &why)),
            None => Err(usage(format!(
                "{} is missing: {}",
                question.option, question.text
            ))),
        }
    }
}

fn wrong(question: &Question<'_>, why: &str) -> crate::failure::Failure {
    usage(format!("{}: {why}", question.option))
}

fn answered<T>(
    question: &Question<'_>,
    read: impl Fn(&str) -> Result<T, String>,
    mut from: impl BufRead,
    mut to: impl Write,
) -> Outcome<T> {
    let default = question.default.as_deref();
    let hint = default.map_or_else(String::new, |default| format!(" [{default}]"));
    let mut last = "there was no answer".to_owned();
    for _ in 0..TRIES_MAX {
        write!(to, "{}{hint}: ", question.text)
            .and_then(|()| to.flush())
            .map_err(cannot("ask"))?;
        let mut line = String::new();
        from.by_ref()
            .take(ANSWER_BYTES_MAX)
            .read_line(&mut line)
            .map_err(cannot("read the answer"))?;
        if line.is_empty() {
            break;
        }
        let answer = match (line.trim(), default) {
            ("", Some(default)) => default,
            (answer, _) => answer,
        };
        match read(answer) {
            Ok(value) => return Ok(value),
            Err(why) => {
                let _ = writeln!(to, "{why}");
                last = why;
            }
        }
    }
    Err(wrong(question, &last))
}

#[cfg(test)]
mod tests {
    //! Goal: wrong answers are asked again, a few times; without a terminal nothing is asked.
    use super::*;

    fn number(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| format!("{text:?} is no number"))
    }

    fn question(default: Option<&str>) -> Question<'static> {
        Question {
            option: "--number",
            text: "Which number",
            default: default.map(str::to_owned),
        }
    }

    #[test]
    fn answers_are_read_until_one_is_right() {
        for (typed, default, answer) in [
            ("7\n", None, Some(7)),
            ("\n", Some("5"), Some(5)),
            ("x\n\n8", None, Some(8)),
            ("x\ny\nz\n9\n", None, None),
            ("", Some("5"), None),
            ("\n\n\n", None, None),
        ] {
            let mut asked = Vec::new();
            let got = answered(&question(default), number, typed.as_bytes(), &mut asked);
            assert_eq!(got.ok(), answer, "{typed:?}");
            assert!(
                String::from_utf8(asked)
                    .unwrap()
                    .starts_with("Which number")
            );
        }
    }

    #[test]
    fn nobody_gives_the_default_or_is_told_the_option() {
        let mut nobody = Questions { somebody: false };
        assert_eq!(nobody.ask(&question(Some("5")), number), Ok(5));
        let missing = nobody.ask(&question(None), number).unwrap_err();
        assert_eq!(missing, usage("--number is missing: Which number"));
        let wrong = nobody.ask(&question(Some("x")), number).unwrap_err();
        assert_eq!(wrong, usage("--number: \"x\" is no number"));
    }
}
