//! `tallyhold import online-retail`, the real program on the fixture files.

use rust_decimal::Decimal;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};
use testkit::{Database, app::SECRET, proxy::Proxy};
use tokio::process::Command;

const DAYS: [&str; 7] =
    ["2010-12-01", "2010-12-02", "2010-12-03", "2010-12-05", "2010-12-06", "2010-12-07", "2010-12-08"];

fn days() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/online-retail");
    DAYS.iter().map(|day| folder.join(format!("{day}.csv"))).collect()
}

fn program(database_url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyhold"));
    command.env_remove("TALLYHOLD_GATE").env("DATABASE_URL", database_url).env("TALLYHOLD_SECRET", SECRET);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn import(database_url: &str, files: &[PathBuf]) -> Command {
    let mut command = program(database_url);
    command.args(["import", "online-retail", "--json"]).args(files);
    command
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error} in {output:?}, which said {said}"))
}

/// Runs an import that must end well, and gives its report.
async fn imported(mut command: Command) -> Value {
    let output = command.output().await.expect("the program runs");
    let report = json(&output);
    assert!(output.status.success(), "{report:#}");
    assert_eq!(report["balanced"], true);
    report
}

/// Runs an import that must be killed by its gate.
async fn killed(mut command: Command, gate: &str) {
    let status = command.env("TALLYHOLD_GATE", gate).output().await.expect("the program runs").status;
    assert_eq!(status.signal(), Some(9), "it was not killed at {gate}");
}

/// A file of its own in a folder of its own.
fn file(folder: &Path, name: &str, lines: &[&str]) -> PathBuf {
    let header = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country";
    let path = folder.join(name);
    fs::write(&path, [&[header], lines].concat().join("\n")).expect("the folder is ours");
    path
}

async fn verified(database: &Database) {
    let output = program(&database.server_url()).args(["verify", "--json"]).output().await.expect("the program runs");
    let report = json(&output);
    assert!(output.status.success() && report["findings"] == Value::from(Vec::<Value>::new()), "{report:#}");
}

async fn rows(database: &Database, query: &str) -> Vec<String> {
    let rows = database.raw_admin().await.query(query, &[]).await.expect("the query is right");
    rows.iter().map(|row| row.get(0)).collect()
}

/// All that an import leaves behind, in a form without ids and times: equal for equal imports.
async fn state(database: &Database) -> Vec<Vec<String>> {
    let mut state = Vec::new();
    for query in [
        "SELECT concat_ws(' ', s.code, s.name, on_hand, on_order, allocated, reserved, sequence)
         FROM stock_position JOIN sku AS s USING (tenant_id, sku_id) ORDER BY 1",
        "SELECT concat_ws(' ', source, s.code, quantity, shipped, released, returned, state)
         FROM promise JOIN sku AS s USING (tenant_id, sku_id) ORDER BY 1",
        "SELECT concat_ws(' ', l.source, l.kind, l.reason, l.on_hand, l.allocated, s.code, p.source)
         FROM stock_ledger AS l
         JOIN stock_position USING (tenant_id, position_id)
         JOIN sku AS s USING (tenant_id, sku_id)
         LEFT JOIN promise AS p USING (tenant_id, promise_id)
         ORDER BY 1",
        "SELECT concat_ws(' ', source, kind) FROM stock_source ORDER BY 1",
        "SELECT concat_ws(' ', kind, data->>'source', data->>'quantity') FROM event ORDER BY 1",
        "SELECT concat_ws(' ', slug, (SELECT count(*) FROM sku), (SELECT count(*) FROM warehouse)) FROM tenant_slug",
    ] {
        state.push(rows(database, query).await);
    }
    state
}

/// What an uninterrupted import of the files leaves behind.
async fn undisturbed(files: &[PathBuf]) -> Vec<Vec<String>> {
    let database = Database::new().await;
    imported(import(&database.server_url(), files)).await;
    state(&database).await
}

/// A file's lines as another reader sees them: code, units, and whether they come back.
struct Model {
    units: Decimal,
    value: Decimal,
    lines: u64,
    /// By code: sold, given back, taken away.
    goods: BTreeMap<String, (Decimal, Decimal, Decimal)>,
}

/// Sums over the lines, with the rules written down once more: goods of the fixtures begin with
/// five digits; what comes back has a cancellation or a customer.
fn model(files: &[PathBuf]) -> Model {
    let mut model = Model { units: Decimal::ZERO, value: Decimal::ZERO, lines: 0, goods: BTreeMap::new() };
    for path in files {
        for record in csv::Reader::from_path(path).expect("the file is there").records() {
            let record = record.expect("the fixtures are good CSV");
            let units: Decimal = record[3].parse().expect("a number");
            model.units += units;
            model.value += units * record[5].parse::<Decimal>().expect("a number");
            model.lines += 1;
            let code = record[1].to_uppercase();
            if !code.bytes().take(5).all(|b| b.is_ascii_digit()) {
                continue;
            }
            let (sold, back, lost) = model.goods.entry(code).or_default();
            if units > Decimal::ZERO {
                *sold += units;
            } else if record[0].starts_with('C') || !record[6].is_empty() {
                *back -= units;
            } else {
                *lost -= units;
            }
        }
    }
    model
}

fn decimal(value: &Value) -> Decimal {
    value.as_str().expect("a sum is a string").parse().expect("a number")
}

#[tokio::test]
async fn case_103_stock_and_report_are_the_sums_of_the_files_to_the_last_digit() {
    let database = Database::new().await;
    let report = imported(import(&database.server_url(), &days())).await;
    let model = model(&days());

    let total = &report["total"];
    assert_eq!(total["read"]["lines"], model.lines);
    assert_eq!(decimal(&total["read"]["units"]), model.units);
    assert_eq!(decimal(&total["read"]["value"]), model.value.normalize());
    for what in ["lines", "units", "value"] {
        let number = |class: &str| match &total[class][what] {
            Value::Number(lines) => Decimal::from(lines.as_u64().expect("a count")),
            sum => decimal(sum),
        };
        let sum: Decimal = ["booked", "returned", "adjusted", "not_goods", "refused"].map(number).iter().sum();
        assert_eq!(sum, number("read"), "{what}");
        assert_eq!(number("before"), Decimal::ZERO);
    }

    let expected: Vec<String> = (model.goods.iter())
        .map(|(code, (sold, back, lost))| format!("{code} {} {sold} {back} {lost} {back} 0", sold + lost))
        .collect();
    let booked = rows(
        &database,
        "SELECT concat_ws(' ', upper(s.code),
                trim_scale(coalesce(sum(l.on_hand) FILTER (WHERE l.kind = 'receive'), 0)),
                trim_scale(coalesce(-sum(l.on_hand) FILTER (WHERE l.kind = 'ship'), 0)),
                trim_scale(coalesce(sum(l.on_hand) FILTER (WHERE l.kind = 'return' OR l.kind = 'adjust' AND l.on_hand > 0), 0)),
                trim_scale(coalesce(-sum(l.on_hand) FILTER (WHERE l.kind = 'adjust' AND l.on_hand < 0), 0)),
                trim_scale(max(q.on_hand)), trim_scale(max(q.allocated)))
         FROM sku AS s
         JOIN stock_position AS q USING (tenant_id, sku_id)
         JOIN stock_ledger AS l USING (tenant_id, position_id)
         GROUP BY s.code
         ORDER BY upper(s.code) COLLATE \"C\"",
    )
    .await;
    assert_eq!(booked, expected);
    verified(&database).await;
}

#[tokio::test]
async fn idem_14_a_second_import_changes_nothing_and_says_so() {
    let database = Database::new().await;
    let first = imported(import(&database.server_url(), &days())).await;
    let after_first = state(&database).await;
    // The answers are pruned after a day: it is the sources that know.
    let pruned = database.raw_admin().await.execute("DELETE FROM answer", &[]).await.expect("an administrator may");
    assert!(pruned > 0);

    let second = imported(import(&database.server_url(), &days())).await;
    assert_eq!(state(&database).await, after_first);
    let (first, second) = (&first["total"], &second["total"]);
    for class in ["read", "booked", "returned", "adjusted", "not_goods", "refused"] {
        assert_eq!(first[class], second[class], "{class}");
    }
    let booked: u64 =
        ["booked", "returned", "adjusted"].iter().map(|class| second[class]["lines"].as_u64().unwrap_or(0)).sum();
    assert_eq!(second["before"]["lines"], booked);
    let answers = rows(&database, "SELECT count(*)::text FROM answer").await;
    assert_eq!(answers, ["0"], "nothing was sent");
    verified(&database).await;
}

#[tokio::test]
async fn case_087_an_import_killed_anywhere_and_run_again_ends_the_same() {
    let expected = undisturbed(&days()).await;
    for gate in [
        "batch.committed:kill:1",
        "batch.loaded:kill:2",
        "batch.storing:kill:12",
        "batch.committed:kill:37",
        "batch.decided:kill:120",
        "batch.committed:kill:160",
    ] {
        let database = Database::new().await;
        let few = |mut command: Command| {
            command.args(["--callers", "4"]);
            command
        };
        killed(few(import(&database.server_url(), &days())), gate).await;
        verified(&database).await;
        imported(import(&database.server_url(), &days())).await;
        assert_eq!(state(&database).await, expected, "{gate}");
        verified(&database).await;
    }
}

#[tokio::test]
async fn case_087_killed_between_allocation_and_shipment_the_next_run_ships() {
    let day = &days()[..1];
    let database = Database::new().await;
    let one = |mut command: Command| {
        command.args(["--callers", "1"]);
        command
    };
    let undisturbed = Database::new().await;
    let report = imported(one(import(&undisturbed.server_url(), day))).await;
    let prepared = [&report["skus"]["done"], &report["openings"]["done"]].map(|count| count.as_u64().expect("a count"));
    // One caller commits one command at a time: the tenant, the warehouse, SKUs, opening stock, and
    // then an allocation, whose answer never arrives.
    let gate = format!("batch.committed:kill:{}", 2 + prepared.iter().sum::<u64>() + 1);
    killed(one(import(&database.server_url(), day)), &gate).await;
    let left = "SELECT concat_ws(' ', state, count(*)) FROM promise GROUP BY state";
    assert_eq!(rows(&database, left).await, ["open 1"]);

    imported(one(import(&database.server_url(), day))).await;
    assert_eq!(state(&database).await, state(&undisturbed).await);
    verified(&database).await;
}

#[tokio::test]
async fn test_05_three_programs_with_the_same_files_at_once_book_each_line_once() {
    let database = Database::new().await;
    let url = database.server_url();
    let (one, two, three) = tokio::join!(
        imported(import(&url, &days())),
        imported(import(&url, &days())),
        imported(import(&url, &days())),
    );
    for report in [&two, &three] {
        for class in ["read", "booked", "returned", "adjusted", "not_goods", "refused"] {
            assert_eq!(one["total"][class], report["total"][class], "{class}");
        }
    }
    assert_eq!(state(&database).await, undisturbed(&days()).await);
    verified(&database).await;
}

#[tokio::test]
async fn test_05_day_by_day_is_all_at_once() {
    let database = Database::new().await;
    for day in days() {
        imported(import(&database.server_url(), &[day])).await;
    }
    let mut apart = state(&database).await;
    let mut together = undisturbed(&days()).await;
    // A name is that of the first file with the SKU, or of the first with a price: see `plan::Sku`.
    apart.remove(0);
    together.remove(0);
    assert_eq!(apart, together);
    verified(&database).await;
}

#[tokio::test]
async fn case_087_the_lines_of_a_sku_are_booked_in_file_order() {
    let database = Database::new().await;
    imported(import(&database.server_url(), &days())).await;
    let mut place = BTreeMap::new();
    for path in days() {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for record in csv::Reader::from_path(&path).expect("the file is there").records() {
            let record = record.expect("the fixtures are good CSV");
            let line = format!("online-retail|{}|{}", &record[0], record[1].to_uppercase());
            let occurrence = seen.entry(line.clone()).and_modify(|n| *n += 1).or_insert(1);
            place.insert(format!("{line}|{occurrence}"), place.len());
        }
    }
    let booked = database.raw_admin().await;
    let query = "SELECT position_id::text, source FROM stock_ledger
                 WHERE kind <> 'receive' ORDER BY position_id, sequence";
    let booked = booked.query(query, &[]).await.expect("the query is right");
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for row in &booked {
        let (position, source): (String, String) = (row.get(0), row.get(1));
        let line: Vec<&str> = source.split('|').take(4).collect();
        let at = place[&line.join("|")];
        let before = last.insert(position, at);
        assert!(before.is_none_or(|before| before <= at), "{source} came too late");
    }
    assert!(booked.len() > place.len(), "a sale has two ledger lines");
}

#[tokio::test]
async fn idem_04_a_corrected_line_is_refused_with_both_quantities() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |text: &str| text.replace(' ', ",");
    let sale = line("1 22139 TEA 6 2010-12-01 2.5 7 UK");
    let other = line("1 22140 MUG 3 2010-12-01 2.5 7 UK");
    let back = line("C2 22139 TEA -2 2010-12-01 2.5 7 UK");
    let found = line("C3 22140 MUG -1 2010-12-01 2.5 8 UK");
    let lost = line("4 22140 gone -1 2010-12-01 0  UK");
    let database = Database::new().await;
    let day = file(folder.path(), "day.csv", &[&sale, &other, &back, &found, &lost]);
    imported(import(&database.server_url(), std::slice::from_ref(&day))).await;
    let before = state(&database).await;

    for (wrong, right, refusal) in [
        (&sale, "1 22139 TEA 8 2010-12-01 2.5 7 UK", "booked before with quantity 6, the file says 8"),
        (&back, "C2 22139 TEA -1 2010-12-01 2.5 7 UK", "booked before with quantity 2, the file says 1"),
        (&back, "C2 22139 TEA -2 2010-12-01 2.5 8 UK", "booked before as return of 2, the file makes it adjust"),
        (&found, "C3 22140 MUG -1 2010-12-01 2.5 7 UK", "booked before as adjust of 1, the file makes it return"),
        (&lost, "4 22140 gone -3 2010-12-01 0  UK", "booked before with quantity -1, the file says -3"),
        (&lost, "4 22140 gone 1 2010-12-01 0  UK", "booked before as adjust of -1, the file makes it allocate"),
    ] {
        let right = line(right);
        let lines: Vec<&str> =
            [&sale, &other, &back, &found, &lost].map(|line| if line == wrong { &*right } else { line }).to_vec();
        file(folder.path(), "day.csv", &lines);
        let output = import(&database.server_url(), std::slice::from_ref(&day)).output().await.expect("it runs");
        let report = json(&output);
        assert_eq!(output.status.code(), Some(1), "{report:#}");
        assert_eq!(report["balanced"], true);
        assert_eq!(report["refused"].as_array().map(Vec::len), Some(1), "{right}: {report:#}");
        assert_eq!(report["refused"][0]["reason"], refusal, "{right}");
        assert_eq!(report["total"]["before"]["lines"], 4);
        assert_eq!(state(&database).await, before, "{right}");
    }
    verified(&database).await;
}

/// The stock that an added line needs was not received with its file; it must not take what
/// belongs to another.
#[tokio::test]
async fn a_line_added_after_the_import_is_refused_until_its_file_is_a_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = ("1,22139,TEA,6,2010-12-01,2.5,7,UK", "2,22139,TEA,4,2010-12-01,2.5,7,UK");
    let database = Database::new().await;
    let day = file(folder.path(), "day.csv", &[one]);
    imported(import(&database.server_url(), std::slice::from_ref(&day))).await;
    file(folder.path(), "day.csv", &[one, two]);
    let output = import(&database.server_url(), &[day]).output().await.expect("it runs");
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1));
    let opening = &report["openings"]["refused"][0];
    assert_eq!(opening["reason"], "booked before with quantity 6, the file says 10");
    assert_eq!(report["refused"][0]["key"], "online-retail|2|22139|1");

    let rest = file(folder.path(), "rest.csv", &[two]);
    imported(import(&database.server_url(), &[rest])).await;
    assert_eq!(rows(&database, "SELECT trim_scale(sum(shipped))::text FROM promise").await, ["10"]);
    verified(&database).await;
}

/// The name of a file is part of the key of its opening stock.
#[tokio::test]
async fn idem_14_a_renamed_file_brings_no_stock_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = "1,22139,TEA,6,2010-12-01,2.5,7,UK";
    let database = Database::new().await;
    imported(import(&database.server_url(), &[file(folder.path(), "day.csv", &[line])])).await;
    let before = state(&database).await;
    let renamed = file(folder.path(), "renamed.csv", &[line]);
    let output = import(&database.server_url(), &[renamed]).output().await.expect("it runs");
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    let reason = report["openings"]["refused"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("was the file renamed"), "{reason}");
    assert_eq!(state(&database).await, before);
    verified(&database).await;
}

/// A refusal is stored for a day under its key; the reason may be gone sooner.
#[tokio::test]
async fn idem_06_a_line_that_was_refused_is_booked_once_its_reason_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::new().await;
    let (one, two) = ("1,22139,TEA,6,2010-12-01,2.5,7,UK", "2,22139,TEA,4,2010-12-01,2.5,7,UK");
    let day = file(folder.path(), "day.csv", &[one]);
    imported(import(&database.server_url(), &[day])).await;
    // Stock that somebody else takes between two runs is staged as a lowered on hand: the opening of
    // the second file is there, as the first run left it, and its sale is not.
    let next = [file(folder.path(), "next.csv", &[two])];
    killed(
        {
            let mut command = import(&database.server_url(), &next);
            command.args(["--callers", "1"]);
            command
        },
        "batch.committed:kill:1",
    )
    .await;
    let admin = database.raw_admin().await;
    admin.execute("UPDATE stock_position SET on_hand = 1", &[]).await.expect("an administrator may");
    let output = import(&database.server_url(), &next).output().await.expect("it runs");
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1));
    let reason = report["refused"][0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("4 of sku_") && reason.ends_with(" 1 available"), "{reason}");

    admin.execute("UPDATE stock_position SET on_hand = 4", &[]).await.expect("an administrator may");
    imported(import(&database.server_url(), &next)).await;
    assert_eq!(rows(&database, "SELECT trim_scale(sum(shipped))::text FROM promise").await, ["10"]);
    verified(&database).await;
}

#[tokio::test]
async fn idem_13_answers_lost_on_their_way_are_asked_for_again() {
    let database = Database::new().await;
    let proxy = Proxy::start(&database.server(), "stock_ledger_store").await;
    let through = proxy.config(&database.server());
    let port = through.get_ports().first().copied().expect("a port");
    proxy.cut_next(12);
    let url = format!("postgresql://tallyhold_server@127.0.0.1:{port}/{}", database.name);
    imported(import(&url, &days())).await;
    assert_eq!(proxy.cuts_left(), 0);
    assert_eq!(state(&database).await, undisturbed(&days()).await);
    verified(&database).await;
}

#[tokio::test]
async fn files_that_cannot_be_read_stop_an_import_before_it_books() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = folder.path().join("bad.csv");
    fs::write(&bad, "a,b\n1,2\n").expect("the folder is ours");
    let line = "1,22139,TEA,6,2010-12-01,2.5,7,UK";
    let (good, copy) = (file(folder.path(), "good.csv", &[line]), file(folder.path(), "copy.csv", &[line]));
    let database = Database::new().await;
    for (file, said) in [
        (&folder.path().join("none.csv"), "none.csv: No such file"),
        (&bad, "bad.csv: the first line must be the header"),
        (&copy, "good.csv and copy.csv have the same lines"),
    ] {
        let files = [good.clone(), file.clone()];
        let output = import(&database.server_url(), &files).output().await.expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr.contains(said), "{stderr}");
    }
    assert_eq!(rows(&database, "SELECT slug FROM tenant_slug").await, Vec::<String>::new());
}

#[tokio::test]
async fn lines_that_their_file_makes_unbookable_are_told_and_are_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines =
        ["1,22139,TEA,6,2010-12-01,2.5,7,UK", "1,22139,TEA,x,2010-12-01,2.5,7,UK", "1,POST,,1,2010-12-01,18,7,UK"];
    let database = Database::new().await;
    let mut command = program(&database.server_url());
    command.args(["import", "online-retail"]).arg(file(folder.path(), "day.csv", &lines));
    let output = command.output().await.expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for said in ["day.csv:3: quantity \"x\" is not a number", "POST (postage)", "Balanced:", "3 lines in"] {
        assert!(text.contains(said), "{said} is not in {text}");
    }
    assert!(output.stderr.is_empty(), "no progress bar without a terminal");
}

#[tokio::test]
async fn a_file_that_is_not_utf8_is_read_as_windows_1252_and_the_report_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = file(folder.path(), "plain.csv", &["1,22139,CAFÉ,6,2010-12-01,2.5,7,UK"]);
    let latin =
        file(folder.path(), "latin.csv", &["2,22140,CAF?,6,2010-12-01,2.5,7,UK", "3,22141,? 10,6,2010-12-01,2,7,UK"]);
    let bytes = fs::read(&latin).expect("it was written");
    let bytes: Vec<u8> = bytes.into_iter().map(|byte| if byte == b'?' { 0xc9 } else { byte }).collect();
    fs::write(&latin, bytes).expect("the folder is ours");
    let database = Database::new().await;
    let files = [plain, latin];
    let report = imported(import(&database.server_url(), &files)).await;
    let not_utf8: Vec<&Value> =
        report["files"].as_array().expect("files").iter().map(|file| &file["not_utf8"]).collect();
    assert_eq!(not_utf8, [&Value::Null, &serde_json::json!({"fields": 2, "first_line": 2})]);
    let names = rows(&database, "SELECT name FROM sku ORDER BY code").await;
    assert_eq!(names, ["CAFÉ", "CAFÉ", "É 10"]);

    let output = program(&database.server_url()).args(["import", "online-retail"]).args(&files).output().await;
    let shown = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let told: Vec<&str> = shown.lines().filter(|line| line.contains("UTF-8")).collect();
    assert_eq!(told, ["latin.csv: 2 fields are not UTF-8 and were read as Windows-1252, the first on line 2"]);
}

#[tokio::test]
async fn case_087_an_import_that_is_told_to_stop_says_how_far_it_is_and_goes_on_when_run_again() {
    let day = &days()[..1];
    let expected = undisturbed(day).await;
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let database = Database::new().await;
        let admin = database.raw_admin().await;
        // What is sold waits for this; the SKUs and the opening stock do not.
        admin.batch_execute("BEGIN; LOCK TABLE promise IN SHARE MODE").await.expect("locked");
        let mut command = import(&database.server_url(), day);
        let command = command.args(["--callers", "1"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        database.wait_for_lock_wait("INSERT INTO promise").await;
        crate::process::signal(child.id().expect("it runs"), signal);
        let output = child.wait_with_output().await.expect("it ends");
        admin.batch_execute("ROLLBACK").await.expect("unlocked");

        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        let [skus, openings] = ["sku", "stock_position"].map(|table| format!("SELECT count(*)::text FROM {table}"));
        let (skus, openings) = (rows(&database, &skus).await.remove(0), rows(&database, &openings).await.remove(0));
        let far = format!("stopped after {skus} of {skus} SKUs, {openings} of {openings} opening stocks and ");
        assert!(said.contains(&far) && said.contains(" lines to book; "), "{said}");
        assert!(said.contains("Run the same command again, and it goes on from there."), "{said}");
        assert!(output.stdout.is_empty(), "half an import has no report");

        imported(import(&database.server_url(), day)).await;
        assert_eq!(state(&database).await, expected);
        verified(&database).await;
    }
}
