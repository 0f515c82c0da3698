//! What a route is: how a command is asked for by HTTP.

use crate::caller::CallerRole;
use http::Method;

/// What every path of the API begins with.
pub const API_ROOT: &str = "/api/v1";

/// How the text of a path or query becomes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// As it is.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Bool,
    /// Whole numbers with commas between.
    Numbers,
}

/// The values of a path's parameters, by their names.
pub(crate) type PathValues<'a> = Vec<(&'static str, &'a str)>;

/// A field that comes by the path or the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Its name, in the request too.
    pub name: &'static str,
    /// What it is.
    pub kind: ParamKind,
}

/// How a command is asked for by HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The command's name in [`Request`].
    pub command: &'static str,
    /// Its method.
    pub method: Method,
    /// Its path below [`API_ROOT`]; `{NAME}` is a parameter.
    pub path: &'static str,
    /// The parameters of its path, then those of its query. Other fields come as a JSON object in the body.
    pub params: &'static [Param],
    /// Who may.
    pub role: CallerRole,
    /// The part of the document that it is shown in.
    pub tag: &'static str,
}

impl Route {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.method == Method::GET
    }

    /// Whether its path has this parameter.
    #[must_use]
    pub fn is_in_path(&self, name: &str) -> bool {
        segments(self.path).any(|s| placeholder(s) == Some(name))
    }

    /// The values of the path's parameters, where the path is this route's.
    pub(crate) fn matched<'a>(&self, path: &'a str) -> Option<PathValues<'a>> {
        let mut values = Vec::new();
        let (mut own, mut asked) = (segments(self.path), segments(path));
        loop {
            match (own.next(), asked.next()) {
                (None, None) => return Some(values),
                (Some(own), Some(asked)) => match placeholder(own) {
                    Some(name) if !asked.is_empty() => values.push((name, asked)),
                    None if own == asked => {}
                    _ => return None,
                },
                _ => return None,
            }
        }
    }
}

pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches('/').split('/')
}

pub(crate) fn placeholder(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}
