use super::*;

fn read(rows: &[u8]) -> RetailFile {
    let mut bytes = HEADER.join(",").into_bytes();
    bytes.push(b'\n');
    bytes.extend_from_slice(rows);
    parse("day.csv", &bytes).unwrap()
}

/// Line numbers with the description of a line or the reason of a flaw.
fn said(file: &RetailFile) -> Vec<(u64, &str)> {
    assert_eq!(file.totals.lines, file.records.len() as u64);
    file.records
        .iter()
        .map(|record| match record {
            Record::Line(line) => (line.number, line.description.as_str()),
            Record::Flawed(flawed) => (flawed.number, flawed.reason.as_str()),
        })
        .collect()
}

#[test]
fn a_line_is_typed_and_folded() {
    let file = read(b"c536365, 85123a ,  HEART \t,-6,2010-12-01 08:26:00,2.550,17850.0,EIRE\n");
    let [Record::Line(line)] = &file.records[..] else { panic!("{:?}", file.records) };
    let expected = Line {
        number: 2,
        invoice: "C536365".to_owned(),
        code: "85123A".to_owned(),
        description: "HEART".to_owned(),
        quantity: Decimal::from(-6),
        at: jiff::civil::date(2010, 12, 1).at(8, 26, 0, 0),
        unit_price: Decimal::new(255, 2),
        customer: Some("17850".to_owned()),
        country: "EIRE".to_owned(),
    };
    assert_eq!(*line, expected);
    assert_eq!(file.totals, line.totals());
    assert_eq!(file.totals.value.to_string(), "-15.3");
}

#[test]
fn a_flaw_refuses_its_line_and_keeps_what_was_read() {
    let long = "9".repeat(65);
    for (row, reason, units, value) in [
        ("1,22139,x,6,2010-12-01 08:26:00,2", "6 columns instead of 8", "0", "0"),
        ("1,22139,x,6,2010-12-01 08:26:00,2,7,UK,more", "9 columns", "0", "0"),
        (",22139,x,6,2010-12-01 08:26:00,2,7,UK", "no invoice number", "6", "12"),
        ("1|2,22139,x,6,2010-12-01 08:26:00,2,7,UK", "invoice number \"1|2\"", "6", "12"),
        ("1, ,x,6,2010-12-01 08:26:00,2,7,UK", "no stock code", "6", "12"),
        (&format!("1,{long},x,6,2010-12-01 08:26:00,2,7,UK"), "of 65 characters", "6", "12"),
        ("1,22139,x,six,2010-12-01 08:26:00,2,7,UK", "quantity \"six\" is not", "0", "0"),
        ("1,22139,x,,2010-12-01 08:26:00,2,7,UK", "quantity \"\" is not", "0", "0"),
        ("1,22139,x,1_0,2010-12-01 08:26:00,2,7,UK", "quantity \"1_0\" is not", "0", "0"),
        ("1,22139,x,1e3,2010-12-01 08:26:00,2,7,UK", "quantity \"1e3\" is not", "0", "0"),
        ("1,22139,x,1000000000000,2010-12-01 08:26:00,2,7,UK", "12 digits before", "0", "0"),
        ("1,22139,x,0.0000001,2010-12-01 08:26:00,2,7,UK", "6 after", "0", "0"),
        ("1,22139,x,6,2010-12-01 08:26:00,NaN,7,UK", "unit price \"NaN\" is not", "6", "0"),
        ("1,22139,x,6,2010-13-01 08:26:00,2,7,UK", "invoice date", "6", "12"),
        ("1,22139,x,6,01-12-2010 08:26,2,7,UK", "invoice date", "6", "12"),
        ("1,22139,x,6,2010-12-01 08:26:00,2,7 8,UK", "customer \"7 8\"", "6", "12"),
        ("1,22139,x,999999999999,2010-12-01 08:26:00,9999999,7,UK", "quantity times price", "999999999999", "0"),
    ] {
        let file = read(row.as_bytes());
        let [Record::Flawed(flawed)] = &file.records[..] else { panic!("{row}") };
        assert!(flawed.reason.contains(reason), "{row}: {}", flawed.reason);
        assert_eq!(flawed.totals, file.totals, "{row}");
        assert_eq!(file.totals.units.to_string(), units, "{row}");
        assert_eq!(file.totals.value.to_string(), value, "{row}");
    }
}

#[test]
fn both_kinds_of_dates() {
    for date in ["2010-12-01 08:26:00", "2010-12-01T08:26", "12/1/2010 8:26", "12/01/2010 08:26"] {
        let read = date_time(date);
        assert_eq!(read, Ok(jiff::civil::date(2010, 12, 1).at(8, 26, 0, 0)), "{date}");
    }
}

#[test]
fn the_header_must_be_there() {
    let header = HEADER.join(",");
    for good in [format!("{header}\n"), format!("\u{feff}{header}\r\n"), format!("\n\"{}\"", HEADER.join("\",\""))] {
        assert_eq!(parse("a/b/day.1.csv", good.as_bytes()).unwrap().stem, "day.1", "{good}");
    }
    let bad = [String::new(), header.replace(',', ";"), header.replace("UnitPrice", "Price")];
    for bad in bad.iter().chain([&"\"".to_owned(), &format!("{header},More\n")]) {
        let error = parse("day.csv", bad.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(&header) && error.starts_with("day.csv: "), "{error}");
    }
    for name in ["", "a/", "a|b.csv", ".csv", "größe.csv", "a\tb.csv"] {
        let error = parse(name, header.as_bytes());
        assert!(matches!(error, Err(FileError::NameUnusable { .. })), "{name}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_windows_1252() {
    let end = b",1,2010-12-01 08:26:00,2,7,UK\n";
    for (bytes, expected, guessed) in [
        (&b"VOUCHER \xa310"[..], "VOUCHER £10", true),
        ("VOUCHER £10".as_bytes(), "VOUCHER £10", false),
        (b"\x93A\x94 \x80 \x81", "“A” € \u{fffd}", true),
        (b"NUL\0LINE", "NUL LINE", false),
    ] {
        let file = read(&[b"1,22139,", bytes, end].concat());
        assert_eq!(said(&file), [(2, expected)]);
        assert_eq!(file.not_utf8, guessed.then_some(NotUtf8 { fields: 1, first_line: 2 }));
    }
}

#[test]
fn quotes_and_line_ends() {
    let end = ",1,2010-12-01 08:26:00,2,7,UK";
    for (rows, expected) in [
        (format!("1,1,a{end}\r\n1,1,b{end}"), vec![(2, "a"), (3, "b")]),
        (format!("\n\n1,1,a{end}\n\n1,1,b{end}\n\n"), vec![(4, "a"), (6, "b")]),
        (format!("1,1,\"a,\n\"\"b\"\"\"{end}\n1,1,c{end}\n"), vec![(2, "a, \"b\""), (4, "c")]),
        (format!("1,1,\"a\"b{end}\n1,1,c{end}\n"), vec![(2, "a quoted field does not end with its quote"), (3, "c")]),
        (format!("1,1,7\" a{end}\n1,1,b{end}\n"), vec![(2, "7\" a"), (3, "b")]),
        (
            format!("1,1,\"a{end}\n1,1,b{end}\n1,1,c{end}\n"),
            vec![(2, "a quoted field does not end with its quote"), (3, "b"), (4, "c")],
        ),
        (
            format!("1,1,\"a{end}\n1,1,\"b{end}\n1,1,c{end}\n"),
            vec![
                (2, "a quoted field does not end with its quote"),
                (3, "a quoted field does not end with its quote"),
                (4, "c"),
            ],
        ),
        (format!("1,1,\"a{end}"), vec![(2, "a quoted field does not end with its quote")]),
    ] {
        assert_eq!(said(&read(rows.as_bytes())), expected, "{rows:?}");
    }
}

/// No bytes panic, and each record is counted.
#[test]
fn any_bytes_are_accounted_for() {
    const PIECES: [&[u8]; 12] = [
        b",",
        b"\"",
        b"\n",
        b"\r",
        b"\r\n",
        b"\"\"",
        b"\xa3",
        b"\0",
        b"1",
        b"-",
        b"2010-12-01 08:26:00",
        b"1,22139,x,6,2010-12-01 08:26:00,2,7,UK\n",
    ];
    let mut seed = 1_u64;
    for _ in 0..2_000 {
        let mut rows = Vec::new();
        for _ in 0..60 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            rows.extend_from_slice(PIECES[usize::try_from(seed >> 33).unwrap() % PIECES.len()]);
        }
        let file = read(&rows);
        assert!(said(&file).windows(2).all(|pair| pair[0].0 <= pair[1].0), "{rows:?}");
    }
}
