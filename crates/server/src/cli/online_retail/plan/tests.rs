use super::{super::parse::parse, *};

const HEADER: &str = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n";
const DAYS: [(&str, &[u8]); 7] = [
    ("2010-12-01.csv", include_bytes!("../../../../tests/data/online-retail/2010-12-01.csv")),
    ("2010-12-02.csv", include_bytes!("../../../../tests/data/online-retail/2010-12-02.csv")),
    ("2010-12-03.csv", include_bytes!("../../../../tests/data/online-retail/2010-12-03.csv")),
    ("2010-12-05.csv", include_bytes!("../../../../tests/data/online-retail/2010-12-05.csv")),
    ("2010-12-06.csv", include_bytes!("../../../../tests/data/online-retail/2010-12-06.csv")),
    ("2010-12-07.csv", include_bytes!("../../../../tests/data/online-retail/2010-12-07.csv")),
    ("2010-12-08.csv", include_bytes!("../../../../tests/data/online-retail/2010-12-08.csv")),
];

/// Rows as `invoice code quantity price customer description`, `-` for nothing.
fn file(name: &str, rows: &[&str]) -> RetailFile {
    let mut csv = HEADER.to_owned();
    for row in rows {
        let nothing = |field: &str| field.replace('-', "");
        let [invoice, code, quantity, price, customer, description] = row.splitn(6, ' ').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let (customer, description) = (nothing(customer), nothing(description));
        csv += &[invoice, code, &description, quantity, "2010-12-01 08:26", price, &customer, "UK\n"].join(",");
    }
    parse(name, csv.as_bytes()).unwrap()
}

fn planned(rows: &[&str]) -> Plan {
    plan(vec![file("day.csv", rows)]).unwrap()
}

/// The operations as words, so that they can be written down in a table.
fn operations(plan: &Plan) -> Vec<String> {
    let word = |step: &Step| match &step.operation {
        Operation::Sale => format!("sale {}", step.line.quantity),
        Operation::Return { of } => of.iter().fold("return".to_owned(), |words, part| {
            format!("{words} {} of {}", part.quantity, plan.steps[part.step].key)
        }),
        Operation::Adjust { quantity, reason, .. } => format!("adjust {quantity} {reason}"),
    };
    plan.steps.iter().map(word).collect()
}

fn check(rows: &[&str], expected: &[&str]) {
    assert_eq!(operations(&planned(rows)), expected, "{rows:?}");
}

#[test]
fn sales_and_what_comes_back() {
    check(&["1 22139 6 0 - -"], &["sale 6"]);
    check(&["1 22139 80995 2.08 7 x"], &["sale 80995"]);
    check(
        &["1 22139 6 1 7 x", "C2 22139 -4 1 7 x", "C3 22139 -4 1 7 x", "C4 22139 -2 1 7 x"],
        &[
            "sale 6",
            "return 4 of online-retail|1|22139|1",
            "adjust 4 cancellation of more than the known sales: C3",
            "return 2 of online-retail|1|22139|1",
        ],
    );
    check(
        &["1 22139 6 1 7 x", "2 22139 3 1 7 x", "c3 22139 -5 9 7.0 x", "C3 22139 -4 1 7 x"],
        &[
            "sale 6",
            "sale 3",
            "return 3 of online-retail|2|22139|1 2 of online-retail|1|22139|1",
            "return 4 of online-retail|1|22139|1",
        ],
    );
    let unknown = "adjust 1 cancellation, no sale known: C2";
    check(&["1 22139 6 1 7 x", "C2 22139 -1 1 8 x"], &["sale 6", unknown]);
    check(&["1 22139 6 1 7 x", "C2 22140 -1 1 7 x"], &["sale 6", unknown]);
    check(&["C2 22139 -1 1 7 x", "1 22139 6 1 7 x"], &[unknown, "sale 6"]);
    check(&["1 22139 6 1 - x", "C2 22139 -1 1 - x"], &["sale 6", "adjust 1 cancellation without customer: C2"]);
    check(&["1 22139 1 1 7 x", "2 22139 -1 1 7 x"], &["sale 1", "return 1 of online-retail|1|22139|1"]);
}

#[test]
fn corrections_take_stock_away() {
    check(&["1 22139 -9 0 - damages"], &["adjust -9 damages"]);
    check(&["1 22139 -9 0 - -"], &["adjust -9 no reason given"]);
}

#[test]
fn lines_that_nothing_is_booked_for() {
    for (row, expected) in [
        ("1 POST 1 18 7 POSTAGE", "postage"),
        ("C1 m -1 18 7 Manual", "manual line"),
        ("A1 B 1 -11062.06 - Adjust", "bad debt"),
        ("1 22139 0 1 7 x", "quantity is zero"),
        ("1 22139 1.5 1 7 x", "quantity 1.5 is no whole number"),
        ("C1 22139 1 1 7 x", "cancellation C1 with a quantity above zero"),
        ("1 22139 1 -0.01 7 x", "price below zero"),
        ("1 XYZ 1 1 7 x", "stock code \"XYZ\" has no form of goods"),
        ("1 22139 x 1 7 x", "quantity \"x\" is not a number"),
    ] {
        let plan = planned(&[row]);
        assert!(plan.steps.is_empty() && plan.skus.is_empty(), "{row}");
        let [Unbooked { why, .. }] = &plan.unbooked[..] else { panic!("{row}") };
        let said = match why {
            Why::NotGoods { what, .. } => what,
            Why::Refused { reason } => reason.as_str(),
        };
        assert!(said.contains(expected), "{row}: {said}");
    }
}

#[test]
fn keys_count_lines_of_invoice_and_code() {
    let plan = planned(&[
        "1 85123a 6 1 7 x",
        "1 22139 6 1 7 x",
        "1 85123A broken 1 7 x",
        "1 85123A 1 1 7 x",
        "2 85123A 1 1 7 x",
    ]);
    let keys: Vec<_> = plan.steps.iter().map(|step| step.key.as_str()).collect();
    assert_eq!(
        keys,
        ["online-retail|1|85123A|1", "online-retail|1|22139|1", "online-retail|1|85123A|3", "online-retail|2|85123A|1",]
    );
    assert_eq!(plan.queues(), [vec![0, 2, 3], vec![1]]);
}

#[test]
fn an_opening_covers_sales_and_corrections() {
    let plan = planned(&["1 85123a 6 1 7 x", "C2 85123A -6 1 7 x", "3 85123A -2 0 - lost", "C4 22139 -1 1 7 x"]);
    let [opening] = &plan.openings[..] else { panic!("{:?}", plan.openings) };
    assert_eq!(opening.key, "online-retail|opening|day|85123A");
    assert_eq!(opening.quantity, Decimal::from(8));
}

#[test]
fn names_come_from_priced_lines_first() {
    let plan = planned(&[
        "1 22139 1 0 - ?",
        "1 22139 1 1 7 TEA SET",
        "1 22139 1 1 7 OTHER",
        "1 22140 1 0 - found",
        "1 22141 1 1 7 -",
    ]);
    let names: Vec<_> = plan.skus.iter().map(|sku| sku.name.as_str()).collect();
    assert_eq!(names, ["TEA SET", "found", "22141"]);
}

/// What is asked of the executor, without the places in the plan.
fn asked(files: &[(&str, &[u8])]) -> Vec<String> {
    let files = files.iter().map(|(name, bytes)| parse(name, bytes).unwrap()).collect();
    let plan = plan(files).unwrap();
    let opening = |opening: &Opening| format!("{} {}", opening.key, opening.quantity);
    let steps = plan.steps.iter().zip(operations(&plan));
    let steps = steps.map(|(step, operation)| format!("{} {operation}", step.key));
    plan.openings.iter().map(opening).chain(steps).collect()
}

#[test]
fn one_by_one_is_all_at_once_in_any_order() {
    let sorted = |mut asked: Vec<String>| {
        asked.sort();
        asked
    };
    let together = sorted(asked(&DAYS));
    let mut backwards = DAYS;
    backwards.reverse();
    assert_eq!(sorted(asked(&backwards)), together);
    assert_eq!(sorted(DAYS.iter().flat_map(|day| asked(&[*day])).collect()), together);
    let mut keys: Vec<_> = together.iter().map(|asked| asked.split(' ').next()).collect();
    keys.dedup();
    assert_eq!(keys.len(), together.len(), "keys are unique");
}

#[test]
fn no_step_of_a_real_day_runs_short() {
    let files = DAYS.iter().map(|(name, bytes)| parse(name, bytes).unwrap()).collect();
    let plan = plan(files).unwrap();
    let mut stock = vec![Decimal::ZERO; plan.skus.len()];
    for opening in &plan.openings {
        stock[opening.sku] += opening.quantity;
    }
    for step in &plan.steps {
        stock[step.sku] += match &step.operation {
            Operation::Adjust { quantity, .. } => *quantity,
            Operation::Sale | Operation::Return { .. } => -step.line.quantity,
        };
        assert!(stock[step.sku] >= Decimal::ZERO, "{}", step.key);
    }
}

#[test]
fn files_that_cannot_go_together() {
    let row = "536365 22139 1 1 7 x";
    let day = || file("day.csv", &[row]);
    assert_eq!(
        plan(vec![day(), file("other/day.csv", &["2 22139 1 1 7 x"])]),
        Err(PlanError::NameTwice { stem: "day".to_owned() })
    );
    assert_eq!(
        plan(vec![day(), file("copy.csv", &[row])]),
        Err(PlanError::ContentTwice { first: "day.csv".to_owned(), second: "copy.csv".to_owned() })
    );
    assert_eq!(
        plan(vec![day(), file("next.csv", &["2 22139 1 1 7 x", "536365 22140 1 1 7 x"])]),
        Err(PlanError::InvoiceInTwoFiles {
            invoice: "536365".to_owned(),
            first: ("day.csv".to_owned(), 2),
            second: ("next.csv".to_owned(), 3),
        })
    );
}
