//! The dashboard: the files of the page that the metadata server serves to browsers.
//!
//! Owns the list of files. Knows nothing of HTTP, tokens or the API, which serves [`ASSETS`]. The page is plain HTML, CSS and JavaScript modules without a build step. It is described in
//! docs/operate/dashboard.md, and its tests with a browser are in `tests/dashboard`.

use ::admin::Asset;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! asset {
    ($path:literal, $media_type:expr, $file:literal) => {
        Asset {
            path: $path,
            media_type: $media_type,
            bytes: include_bytes!($file),
        }
    };
}

/// All files.
pub(crate) static ASSETS: [Asset; 16] = [
    asset!("/", HTML, "index.html"),
    asset!("/assets/style.css", CSS, "style.css"),
    asset!("/assets/icon.svg", SVG, "icon.svg"),
    asset!("/assets/theme.js", JAVASCRIPT, "theme.js"),
    asset!("/assets/app.js", JAVASCRIPT, "app.js"),
    asset!("/assets/api.js", JAVASCRIPT, "api.js"),
    asset!("/assets/chart.js", JAVASCRIPT, "chart.js"),
    asset!("/assets/clients.js", JAVASCRIPT, "clients.js"),
    asset!("/assets/dialogs.js", JAVASCRIPT, "dialogs.js"),
    asset!("/assets/dom.js", JAVASCRIPT, "dom.js"),
    asset!("/assets/events.js", JAVASCRIPT, "events.js"),
    asset!("/assets/format.js", JAVASCRIPT, "format.js"),
    asset!("/assets/model.js", JAVASCRIPT, "model.js"),
    asset!("/assets/overview.js", JAVASCRIPT, "overview.js"),
    asset!("/assets/servers.js", JAVASCRIPT, "servers.js"),
    asset!("/assets/top.js", JAVASCRIPT, "top.js"),
];

/// The file at the path of a request.
#[cfg(test)]
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    //! Goal: every file is served, the page keeps its own policy, and stays small.
    use super::*;

    /// Most bytes of all files together.
    const BYTES_MAX: usize = 300_000;

    fn text(asset: &Asset) -> &'static str {
        std::str::from_utf8(asset.bytes).unwrap()
    }

    #[test]
    fn each_file_of_the_folder_is_served_and_named_by_the_page() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/dashboard");
        let files = std::fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.ends_with(".rs")).collect();
        names.sort();
        let mut served: Vec<_> = { ASSETS.iter() }
            .map(|asset| asset.path.rsplit('/').next().unwrap())
            .map(|name| if name.is_empty() { "index.html" } else { name })
            .collect();
        served.sort_unstable();
        assert_eq!(names, served);
        let page = text(find("/").unwrap());
        for asset in ASSETS.iter().filter(|asset| asset.path != "/") {
            let name = format!("\"{}\"", &asset.path[1..]);
            assert!(page.contains(&name), "the page does not load {name}");
        }
        assert!(find("/assets/none.js").is_none());
        for (path, media_type) in [("/", HTML), ("/assets/app.js", JAVASCRIPT)] {
            assert_eq!(find(path).unwrap().media_type, media_type);
        }
    }

    #[test]
    fn all_files_are_small_together() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(bytes <= BYTES_MAX, "{bytes}");
    }

    #[test]
    fn nothing_is_inline_and_nothing_is_parsed_as_html() {
        assert!(::admin::CONTENT_POLICY.starts_with("default-src 'self';"));
        let page = text(find("/").unwrap());
        assert!(!page.contains(" style=") && !page.contains("<style"));
        assert!(!page.contains("<script>") && !page.contains(" onclick="));
        for asset in &ASSETS {
            let text = text(asset);
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "document.write",
            ] {
                assert!(!text.contains(word), "{}: {word}", asset.path);
            }
            // The names of XML are no addresses that anybody asks.
            let text = text.replace("http://www.w3.org/", "");
            assert!(
                !text.contains("http://") && !text.contains("https://"),
                "{}",
                asset.path
            );
        }
    }
}
