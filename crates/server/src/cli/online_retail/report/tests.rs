use super::{
    super::{parse::parse, plan::plan},
    *,
};

fn planned(days: &[(&str, &[u8])]) -> Plan {
    plan(days.iter().map(|(name, bytes)| parse(name, bytes).unwrap()).collect()).unwrap()
}

fn as_planned(plan: &Plan) -> Report {
    let mut tally = Tally::of(plan);
    for step in &plan.steps {
        tally.record(step, Outcome::Done(step.operation.class()));
    }
    tally.finish()
}

fn small() -> Plan {
    planned(&[(
        "day.csv",
        b"InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n\
          1,22139,TEA SET,6,2010-12-01 08:26:00,2.5,7,UK\n\
          1,POST,POSTAGE,1,2010-12-01 08:26:00,18,7,UK\n\
          C2,22139,TEA SET,-2,2010-12-01 08:26:00,2.5,7,UK\n\
          C3,22139,TEA SET,-1,2010-12-01 08:26:00,2.5,8,UK\n\
          4,22139,TEA SET,x,2010-12-01 08:26:00,2.5,8,UK\n",
    )])
}

/// Figures found by another program (see the README of the fixtures).
#[test]
fn real_days_add_up() {
    macro_rules! day {
        ($name:literal) => {
            ($name, &include_bytes!(concat!("../../../../tests/data/online-retail/", $name))[..])
        };
    }
    for (day, units, value, lines) in [
        (day!("2010-12-01.csv"), "374", "651.31", [61, 54, 1, 4, 2, 0]),
        (day!("2010-12-02.csv"), "197", "284.8", [22, 15, 0, 5, 2, 0]),
        (day!("2010-12-03.csv"), "500", "759.88", [55, 47, 0, 4, 4, 0]),
        (day!("2010-12-05.csv"), "225", "542.03", [73, 65, 1, 3, 4, 0]),
        (day!("2010-12-06.csv"), "248", "916.48", [59, 48, 2, 6, 3, 0]),
        (day!("2010-12-07.csv"), "986", "665.77", [59, 31, 2, 19, 7, 0]),
        (day!("2010-12-08.csv"), "371", "772.51", [38, 29, 0, 4, 5, 0]),
    ] {
        let report = as_planned(&planned(&[day]));
        assert!(report.balanced, "{report}");
        let Account { read, booked, returned, adjusted, not_goods, refused, .. } = report.total;
        assert_eq!((read.units.to_string(), read.value.to_string()), (units.to_owned(), value.to_owned()));
        let found = [read, booked, returned, adjusted, not_goods, refused].map(|sum| sum.lines);
        assert_eq!(found, lines, "{}", day.0);
    }
}

#[test]
fn every_line_stands_in_one_sum() {
    let report = as_planned(&small());
    let Account { booked, returned, adjusted, not_goods, refused, .. } = &report.total;
    let shown = [booked, returned, adjusted, not_goods, refused]
        .map(|sum| format!("{} {} {}", sum.lines, sum.units, sum.value));
    assert_eq!(shown, ["1 6 15", "1 -2 -5", "1 -1 -2.5", "1 1 18", "1 0 0"]);
    assert!(report.balanced);
    let shown = report.to_string();
    for expected in
        ["POST (postage)", "cancellation, no sale known", "day.csv:6: quantity \"x\" is not a number", "Balanced: "]
    {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
}

#[test]
fn columns_are_as_wide_as_their_widest_entry() {
    let day = |invoice: u32| {
        let header = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n";
        let line = |code: &str| format!("{invoice},{code},X,999999999999,2010-12-01 08:26:00,99999.25,7,UK\n");
        [header, &line("22139"), &line("POST")].concat()
    };
    let name = |day: u32| format!("{}{day}.csv", "a-long-name-".repeat(5));
    let shown = as_planned(&planned(&[(&name(1), day(1).as_bytes()), (&name(2), day(2).as_bytes())])).to_string();
    let rows: Vec<&str> = shown.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    ")).collect();
    assert_eq!(rows.len(), 7 + 2 + 1, "{shown}");
    for row in &rows {
        let cells = row.split("  ").filter(|cell| !cell.is_empty()).count();
        assert_eq!((cells, row.len()), (4, rows[0].len()), "{shown}");
    }
}

#[test]
fn a_second_run_and_refusals_balance_too() {
    let plan = small();
    let mut tally = Tally::of(&plan);
    tally.record_sku("22139", Prepared::Before);
    tally.record_opening("k", Prepared::Refused("ats_insufficient".to_owned()));
    tally.record(&plan.steps[2], Outcome::Refused("stock_short".to_owned()));
    tally.record(&plan.steps[0], Outcome::Before(Class::Booked));
    // A run before may have booked it another way than this plan asks.
    tally.record(&plan.steps[1], Outcome::Before(Class::Adjusted));
    let report = tally.finish();
    assert!(report.balanced, "{report}");
    let total = &report.total;
    let lines = [total.booked, total.returned, total.adjusted, total.refused, total.before];
    assert_eq!(lines.map(|sum| sum.lines), [1, 0, 1, 2, 2]);
    let refused: Vec<_> = report.refused.iter().map(|r| (r.line, r.key.as_deref())).collect();
    assert_eq!(refused, [(5, Some("online-retail|C3|22139|1")), (6, None)]);
    assert_eq!((report.skus.before, report.openings.refused.len()), (1, 1));
}

#[test]
fn what_does_not_add_up_is_named() {
    let plan = small();
    let mut tally = Tally::of(&plan);
    for _ in 0..2 {
        tally.record(&plan.steps[0], Outcome::Done(Class::Booked));
    }
    let report = tally.finish();
    assert!(!report.balanced);
    assert_eq!(
        report.differences,
        [
            "online-retail|1|22139|1 has two outcomes",
            "2 lines have no outcome",
            "day.csv: read 5 lines, 4 units, value 25.5, accounted for 3 lines, 7 units, value 33",
        ]
    );
    assert!(report.to_string().contains("NOT BALANCED"));
}
