//! Goal: heads of answers are as RFC 9110, RFC 6750 and RFC 9457 say.
use super::*;

/// What is answered to a request of this method.
async fn ask_by(address: SocketAddr, method: &str, target: &str, more: &str) -> String {
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n{more}\r\n");
    exchange(address, head.as_bytes()).await
}

/// The head of an answer without what differs from one to the next, and without how its content would come.
fn head_of(answer: &str) -> Vec<&str> {
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    let differs = |line: &&str| {
        let names = ["x-request-id", "date", "transfer-encoding"];
        names.iter().any(|name| line.starts_with(name))
    };
    head.lines().filter(|line| !differs(line)).collect()
}

#[tokio::test]
async fn head_has_the_headers_of_get_and_no_content() {
    let address = network(echo()).await;
    let admin = "Authorization: Bearer a\r\n";
    let mut targets: Vec<String> = ["/", "/metrics", "/nothing"].map(str::to_owned).into();
    let fixed = ["/openapi.json", "/session", "/nothing", "/nfs"];
    let routes = crate::ROUTES.iter().filter(|route| route.is_safe());
    let routes = routes.map(|route| route.path.replace(['{', '}'], ""));
    let below = fixed.map(str::to_owned).into_iter().chain(routes);
    targets.extend(below.map(|path| format!("{API_ROOT}{path}")));
    assert!(targets.len() > 15, "{targets:?}");
    for target in targets {
        let get = get(address, &target, admin).await;
        let head = ask_by(address, "HEAD", &target, admin).await;
        assert_eq!(head_of(&head), head_of(&get), "{target}");
        assert!(head.ends_with("\r\n\r\n"), "{target}: {head}");
    }
    // A stream has no end: its head alone is compared.
    let mut stream = TcpStream::connect(address).await.unwrap();
    let asked =
        format!("GET /api/v1/stream HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n{admin}\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut got = vec![0; 4096];
    let count = stream.read(&mut got).await.unwrap();
    let got = String::from_utf8_lossy(&got[..count]).into_owned();
    let head = ask_by(address, "HEAD", "/api/v1/stream", admin).await;
    assert_eq!(head_of(&head), head_of(&got));
    assert!(
        head.contains("text/event-stream") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn each_refusal_has_the_headers_of_its_status() {
    let address = network(echo()).await;
    let allow = "\r\nallow: GET, HEAD\r\n";
    let old = "www-authenticate: Bearer realm=\"ropewalk\", error=\"invalid_token\", error_description=\"the token has expired; an \
               admin can make another\"\r\n";
    let low = "www-authenticate: Bearer realm=\"ropewalk\", error=\"insufficient_scope\", scope=\"operator\"\r\n";
    for (method, target, token, status, header) in [
        ("POST", "/metrics", "v", 405, allow),
        ("DELETE", "/", "v", 405, allow),
        ("PUT", "/api/v1/openapi.json", "v", 405, allow),
        ("POST", "/api/v1/session", "v", 405, allow),
        ("POST", "/api/v1/stream", "v", 405, allow),
        ("POST", "/api/v1/nfs", "a", 405, allow),
        ("PATCH", "/api/v1/status", "v", 405, allow),
        (
            "PUT",
            "/api/v1/access-tokens",
            "a",
            405,
            "\r\nallow: POST, GET, HEAD\r\n",
        ),
        (
            "GET",
            "/api/v1/nfs",
            "a",
            426,
            "\r\nupgrade: ropewalk-nfs\r\n",
        ),
        (
            "GET",
            "/api/v1/status",
            "",
            401,
            "www-authenticate: Bearer realm=\"ropewalk\"\r\n",
        ),
        ("GET", "/api/v1/status", "x", 401, "error=\"invalid_token\""),
        ("GET", "/api/v1/status", "old", 401, old),
        ("GET", "/api/v1/config", "v", 403, low),
        ("GET", "/api/v1/nfs", "o", 403, "scope=\"admin\"\r\n"),
        (
            "GET",
            "/api/v1/status",
            "busy",
            503,
            "\r\nretry-after: 5\r\n",
        ),
    ] {
        let more = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let answer = ask_by(address, method, target, &more).await;
        let said = format!("{method} {target} {token}: {answer}");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
        assert!(answer.contains(header), "{header} in {said}");
        assert!(answer.contains("application/problem+json"), "{said}");
    }
    let other_site = get(address, "/api/v1/status", "Origin: http://evil\r\n").await;
    assert!(!other_site.contains("www-authenticate"), "{other_site}");
}

#[tokio::test]
async fn a_media_type_is_json_in_any_case_and_with_parameters() {
    let address = network(echo()).await;
    for (media_type, status) in [
        ("application/json", 200),
        ("Application/JSON", 200),
        ("application/json; charset=utf-8", 200),
        ("application/json ;charset=utf-8", 200),
        ("application/jsonp", 415),
        ("application/json-patch+json", 415),
        ("text/plain; application/json", 415),
        ("", 415),
    ] {
        let more = format!("Content-Type: {media_type}\r\n");
        let answer = post(address, "/api/v1/scrub", &more, "{}").await;
        let begin = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&begin), "{media_type}: {answer}");
    }
}
