//! Finds functions and their lengths in source that rustfmt has formatted.
//!
//! rustfmt puts the closing brace of a function at the indent of its `fn` line. Nothing else of that function is at
//! this indent but parts of its head (`) -> T {`, `where`, `{`). So a scan of lines is enough, and needs no parser. Raw
//! strings that hold such lines are the known exception.

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// From the `fn` line to the closing brace, both counted.
    pub(super) lines: usize,
}

/// Words that may stand before `fn`.
const QUALIFIERS: [&str; 6] = ["pub", "const", "async", "unsafe", "extern", "default"];

/// All functions of a formatted file, in order; nested ones count by themselves and in their parent.
pub(super) fn functions(file: &str) -> Vec<Function> {
    let lines: Vec<&str> = file.lines().collect();
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = name(line) else {
            continue;
        };
        if let Some(count) = count(&lines[start..]) {
            functions.push(Function {
                name: name.to_owned(),
                lines: count,
            });
        }
    }
    functions
}

fn name(line: &str) -> Option<&str> {
    let (head, rest) = line.split_once("fn ")?;
    let is_head = head.split_whitespace().all(|word| {
        let bare = word.split('(').next().unwrap_or_default();
        // `extern "C"`, and the `super)` of `pub(in super)`.
        QUALIFIERS.contains(&bare) || word.starts_with('"') || word.ends_with(')')
    });
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (is_head && end > 0 && (head.is_empty() || head.ends_with(' '))).then(|| &rest[..end])
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Lines of the function whose head starts the slice, or none when it has no body.
fn count(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let depth = indent(first);
    if first.ends_with(';') {
        return None;
    }
    if first.ends_with('}') {
        return Some(1);
    }
    for (index, line) in lines.iter().enumerate().skip(1) {
        if line.trim().is_empty() || indent(line) > depth {
            // The last line of a `where` clause ends a function without a body.
            continue;
        }
        let text = line.trim();
        if indent(line) < depth || text.ends_with(';') && text.starts_with(')') {
            return None;
        }
        if text.starts_with('}') {
            return Some(index + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    //! Heads of every form, and what is not a function.
    use super::*;

    fn found(file: &str) -> Vec<(String, usize)> {
        let all = functions(file).into_iter();
        all.map(|f| (f.name, f.lines)).collect()
    }

    #[test]
    fn heads_of_every_form_are_counted() {
        let file = r#"
fn one() {}
pub(crate) async fn two<T>(
    a: u32,
) -> T
where
    T: Copy,
{
    body();

    body()
}
impl X {
    pub unsafe extern "C" fn three(&self) {
        if a {
            b
        }
    }
}
"#;
        let expected = [("one", 1), ("two", 10), ("three", 5)];
        let expected: Vec<_> = expected.map(|(n, l)| (n.to_owned(), l)).into();
        assert_eq!(found(file), expected);
    }

    #[test]
    fn declarations_types_and_comments_are_not_functions() {
        let file = "
trait T {
    fn a(&self);
    fn b(
        &self,
    ) -> u32;
}
// the fn c() {
type F = fn (u32) -> u32;
let f: Box<dyn Fn (u32)> = x;
}
";
        assert_eq!(found(file), []);
    }
}
