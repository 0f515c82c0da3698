//! `ropewalk client list`.

use super::rows::{ClientPage, ClientRow};
use crate::admin::{MdsPlace, Request, ask, mds_server};
use crate::failure::Outcome;
use crate::out;
use crate::table::table;

/// `ropewalk client list`.
pub(super) fn run(after: Option<&str>, json: bool, place: &MdsPlace) -> Outcome {
    let after = after.map(str::to_owned);
    let page: ClientPage = ask(
        &mds_server(place)?,
        &Request::ClientList { after, limit: None },
    )?;
    match json {
        true => out::json(&page),
        false => out::print(&text(&page)),
    }
}

fn text(page: &ClientPage) -> String {
    if page.clients.is_empty() {
        return "no clients\n".to_owned();
    }
    let head = [
        "ID",
        "PROTOCOL",
        "STATE",
        ">SEEN",
        ">SESSIONS",
        ">OPENS",
        ">LOCKS",
        ">DELEGATIONS",
        ">LAYOUTS",
        "ADDRESS",
        "OWNER",
        "IMPLEMENTATION",
    ];
    let rows: Vec<Vec<String>> = page.clients.iter().map(cells).collect();
    let mut text = table(&head, &rows);
    if let Some(next) = &page.next {
        text += &format!(
            "the first {} clients; `ropewalk client list --after {next}` shows more\n",
            page.limit
        );
    }
    text
}

fn cells(row: &ClientRow) -> Vec<String> {
    let address = match &row.addresses[..] {
        [] => "-".to_owned(),
        [one] => one.clone(),
        [one, more @ ..] => format!("{one} and {} more", more.len()),
    };
    let implementation = row.implementation.clone();
    vec![
        row.id.clone(),
        row.protocol.clone(),
        row.state.clone(),
        format!("{} s ago", row.unseen_seconds),
        row.sessions.to_string(),
        row.opens.to_string(),
        row.locks.to_string(),
        row.delegations.to_string(),
        row.layouts.to_string(),
        address,
        row.owner.clone(),
        implementation.unwrap_or_else(|| "-".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_a_table_and_a_cut_is_said() {
        let page = ClientPage {
            clients: vec![ClientRow {
                id: "300000001".into(),
                protocol: "NFSv4.2".into(),
                owner: "Linux NFSv4.2 host".into(),
                addresses: vec!["192.0.2.7:800".into(), "192.0.2.8:801".into()],
                opens: 2,
                ..ClientRow::default()
            }],
            limit: 1,
            next: Some("300000001".into()),
        };
        let shown = text(&page);
        for part in [
            "192.0.2.7:800 and 1 more",
            "Linux NFSv4.2 host",
            "the first 1 clients; `ropewalk client list --after 300000001`",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(text(&ClientPage::default()), "no clients\n");
    }

    #[test]
    fn an_answer_may_know_more_or_less_than_we() {
        let read: ClientPage =
            serde_json::from_str(r#"{"clients":[{"id":"1","news":[]}],"more":1}"#).unwrap();
        assert_eq!((&*read.clients[0].id, read.next), ("1", None));
    }
}
