//! Bad input: each a 4xx that names the field, and nothing is lost or half done.

use reqwest::Method;
use serde_json::json;
use testkit::App;

#[tokio::test]
async fn case_102_quantities_that_are_none() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let (sku, warehouse) = (&stock.sku, &stock.warehouse);
    for (n, token) in [
        "-5",
        "0",
        "\"-5\"",
        "\"0\"",
        "\"-0\"",
        "0.0000001",
        "\"0.0000001\"",
        "1e400",
        "-1e400",
        "1e2",
        "\"1e2\"",
        "\"NaN\"",
        "\"Infinity\"",
        "\"٣\"",
        "\" 5 \"",
        "\"5 \"",
        "\"\"",
        "\"+5\"",
        "\"5,0\"",
        "\"0x5\"",
        "null",
        "true",
        "[]",
        "{}",
        "[[[[[[[[5]]]]]]]]",
        "1000000000000",
        "\"1000000000000\"",
        "\"5\\u0000\"",
        "\"５\"",
        "123456789012.123456",
        "99999999999999999999999999999999999999999999999999999999999999999999999999",
    ]
    .into_iter()
    .enumerate()
    {
        for path in ["/v1/stock/allocate", "/v1/stock/receive"] {
            let body = format!(
                r#"{{"lines":[{{"sku_id":"{sku}","warehouse_id":"{warehouse}","quantity":"1"}},
                   {{"sku_id":"{sku}","warehouse_id":"{warehouse}","quantity":{token}}}]}}"#
            );
            let body = app.post_bytes(path, &format!("k{n}{path}"), body).await.problem(422, "invalid_value");
            assert_eq!(body["errors"][0]["field"], "lines[1].quantity", "{token}: {body}");
        }
    }
    for token in ["NaN", "Infinity", ".5", "5.", "+5", "05", "5x", "5_000", "'5'", ""] {
        let body = format!(r#"{{"lines":[{{"sku_id":"{sku}","warehouse_id":"{warehouse}","quantity":{token}}}]}}"#);
        app.post_bytes("/v1/stock/allocate", "n", body).await.problem(400, "malformed_json");
    }
    app.allocate("d", &stock, "0.5").await.problem(422, "quantity_decimals_exceeded");
    let position = app.position(&stock).await;
    assert_eq!((&position["on_hand"], &position["sequence"]), (&json!("10"), &json!(1)));
    app.finish().await;
}

#[tokio::test]
async fn case_100_sums_beyond_the_bound() {
    let app = App::start().await;
    let stock = app.stock("999999999999").await;
    let body = app.post("/v1/stock/receive", "one", &stock.lines(&["1"])).await.problem(422, "quantity_overflow");
    assert_eq!(body["errors"][0]["field"], "lines[0].quantity");
    let (most, path) = ("999999999999", "/v1/stock/allocate");
    let body = app.post(path, "sum", &stock.lines(&[most, most])).await.problem(422, "quantity_overflow");
    assert_eq!(body["errors"][0]["field"], "lines[1].quantity");
    let adjust = json!({"lines": [
        {"sku_id": stock.sku, "warehouse_id": stock.warehouse, "quantity": most, "reason": "x"}]});
    app.post("/v1/stock/adjust", "adj", &adjust).await.problem(422, "quantity_overflow");
    app.allocate("all", &stock, most).await.ok();
    app.finish().await;
}

#[tokio::test]
async fn bodies_that_are_no_request_are_refused_with_the_field() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    let (sku, warehouse) = (&stock.sku, &stock.warehouse);
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let good = format!(r#"{{"sku_id":"{sku}","warehouse_id":"{warehouse}","quantity":"1"}}"#);
    for (bytes, status, code, field) in [
        (b"".to_vec(), 400, "malformed_json", ""),
        (b"{".to_vec(), 400, "malformed_json", ""),
        (b"lines".to_vec(), 400, "malformed_json", ""),
        (b"{\"lines\":[]} x".to_vec(), 400, "malformed_json", ""),
        (b"{\"lines\":\"\xff\xfe\"}".to_vec(), 400, "malformed_json", ""),
        (deep.clone().into_bytes(), 422, "invalid_value", "body"),
        (format!("{{\"lines\":[{deep}]}}").into_bytes(), 422, "invalid_value", "lines[0]"),
        (format!(r#"[[["{sku}","{warehouse}","1"]]]"#).into_bytes(), 422, "invalid_value", "body"),
        (
            format!(r#"{{"lines":[["{sku}","{warehouse}","1",null,0,null]]}}"#).into_bytes(),
            422,
            "invalid_value",
            "lines[0]",
        ),
        (b"[]".to_vec(), 422, "invalid_value", "body"),
        (b"null".to_vec(), 422, "invalid_value", "body"),
        (b"\"x\"".to_vec(), 422, "invalid_value", "body"),
        (b"{}".to_vec(), 422, "invalid_value", "lines"),
        (b"{\"lines\":null}".to_vec(), 422, "invalid_value", "lines"),
        (b"{\"lines\":[]}".to_vec(), 422, "invalid_value", "lines"),
        (b"{\"lines\":[{}]}".to_vec(), 422, "invalid_value", "lines[0].sku_id"),
        (format!("{{\"lines\":[{good}],\"x\":1}}").into_bytes(), 422, "invalid_value", "x"),
        (format!("{{\"lines\":[{good}],\"lines\":[{good}]}}").into_bytes(), 422, "invalid_value", "lines"),
        (format!("{{\"lines\":[{good}],\"seen_short\":[]}}").into_bytes(), 422, "invalid_value", "seen_short"),
        (
            format!(r#"{{"lines":[{{"sku_id":"{warehouse}","warehouse_id":"{warehouse}","quantity":"1"}}]}}"#)
                .into_bytes(),
            422,
            "invalid_value",
            "lines[0].sku_id",
        ),
        (
            format!(
                r#"{{"lines":[{{"sku_id":"{}","warehouse_id":"{warehouse}","quantity":"1"}}]}}"#,
                sku.to_uppercase()
            )
            .into_bytes(),
            422,
            "invalid_value",
            "lines[0].sku_id",
        ),
        (
            format!(r#"{{"lines":[{}]}}"#, vec![good.as_str(); 201].join(",")).into_bytes(),
            422,
            "invalid_value",
            "lines",
        ),
        (good_with(sku, warehouse, r#""source":"a\u0000b""#).into_bytes(), 422, "invalid_value", "lines[0].source"),
        (good_with(sku, warehouse, r#""source":"""#).into_bytes(), 422, "invalid_value", "lines[0].source"),
        (good_with(sku, warehouse, r#""priority":101"#).into_bytes(), 422, "invalid_value", "lines[0].priority"),
        (good_with(sku, warehouse, r#""priority":1.5"#).into_bytes(), 422, "invalid_value", "lines[0].priority"),
    ] {
        let reply = app.post_bytes("/v1/stock/allocate", "k", bytes.clone()).await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!(reply.status, status, "{shown}: {}", reply.text());
        let body = reply.problem(status, code);
        if !field.is_empty() {
            assert_eq!(body["errors"][0]["field"], field, "{shown}: {body}");
        }
    }
    assert_eq!(app.position(&stock).await["allocated"], "0");
    app.finish().await;
}

#[tokio::test]
async fn case_050_a_date_with_more_or_less_than_a_day_is_refused() {
    let app = App::start().await;
    let stock = app.stock("10").await;
    for date in [
        "2026-02-30",
        "20261201",
        "2026-12-01T23:59:59+05:00[Asia/Tashkent]",
        "+002026-12-01",
        "-004713-01-01",
        "-9999-01-01",
        "9999-12-31",
        "2026-12",
        "",
    ] {
        let body = good_with(&stock.sku, &stock.warehouse, &format!(r#""promised_for":"{date}""#));
        let body = app.post_bytes("/v1/stock/allocate", "k", body).await.problem(422, "invalid_value");
        assert_eq!(body["errors"][0]["field"], "lines[0].promised_for", "{date}: {body}");
    }
    let body = good_with(&stock.sku, &stock.warehouse, r#""promised_for":"2999-12-31""#);
    let promise = app.post_bytes("/v1/stock/allocate", "k", body).await.ok()["lines"][0]["promise_id"].clone();
    let promise = app.get(&format!("/v1/promises/{}", promise.as_str().expect("an id"))).await.ok();
    assert_eq!(promise["promised_for"], "2999-12-31");
    app.finish().await;
}

fn good_with(sku: &str, warehouse: &str, more: &str) -> String {
    format!(r#"{{"lines":[{{"sku_id":"{sku}","warehouse_id":"{warehouse}","quantity":"1",{more}}}]}}"#)
}

#[tokio::test]
async fn texts_of_the_catalog_are_bounded_and_their_codes_compared_as_people_do() {
    let app = App::start().await;
    let sku = |code: &str| json!({"code": code, "name": "N", "unit": "piece"});
    app.post("/v1/skus", "1", &sku("85123a")).await.ok();
    let body = app.post("/v1/skus", "2", &sku("85123A")).await.problem(409, "sku_code_taken");
    assert!(body["existing_id"].as_str().is_some_and(|id| id.starts_with("sku_")), "{body}");
    assert!(body["detail"].as_str().is_some_and(|text| text.contains("\"85123a\"")), "as it is spelled there: {body}");
    let warehouse = |code: &str| json!({"code": code, "name": "N"});
    app.post("/v1/warehouses", "w1", &warehouse("Straße")).await.ok();
    let body = app.post("/v1/warehouses", "w2", &warehouse("STRASSE")).await.problem(409, "warehouse_code_taken");
    assert!(body["detail"].as_str().is_some_and(|text| text.contains("\"Straße\"")), "as it is spelled there: {body}");
    app.post("/v1/skus", "3", &sku("８５１２３Ａ")).await.problem(409, "sku_code_taken");
    let found = app.get("/v1/skus?code=85123A").await.ok();
    assert_eq!(found["items"][0]["code"], "85123a");
    for (n, (field, body)) in [
        ("code", sku("")),
        ("code", sku(" A")),
        ("code", sku("A\u{0}")),
        ("code", sku("A\nB")),
        ("code", sku("A\u{200b}")),
        ("code", sku("\u{202e}A")),
        ("code", sku(&"x".repeat(65))),
        ("name", json!({"code": "B", "name": "", "unit": "piece"})),
        ("name", json!({"code": "B", "name": "x".repeat(201), "unit": "piece"})),
        ("unit", json!({"code": "B", "name": "N", "unit": "a unit of many letters"})),
        ("unit", json!({"code": "B", "name": "N"})),
        ("decimals", json!({"code": "B", "name": "N", "unit": "piece", "decimals": 7})),
        ("decimals", json!({"code": "B", "name": "N", "unit": "piece", "decimals": -1})),
        ("decimals", json!({"code": "B", "name": "N", "unit": "piece", "decimals": "2"})),
        ("code", json!({"code": 5, "name": "N", "unit": "piece"})),
    ]
    .into_iter()
    .enumerate()
    {
        let reply = app.post("/v1/skus", &format!("b{n}"), &body).await.problem(422, "invalid_value");
        assert_eq!(reply["errors"][0]["field"], field, "{body} {reply}");
    }
    // Two at once on two replicas: one 201, one 409 that names the first.
    let twin = app.replica().await;
    let (lower, upper) = (sku("race"), sku("RACE"));
    let (one, two) = tokio::join!(app.post("/v1/skus", "r1", &lower), twin.post("/v1/skus", "r2", &upper));
    let (won, lost) = if one.status == 201 { (one, two) } else { (two, one) };
    assert_eq!(lost.problem(409, "sku_code_taken")["existing_id"], won.ok()["sku_id"]);
    twin.finish().await;
}

#[tokio::test]
async fn paths_queries_and_methods_that_are_wrong() {
    let app = App::start().await;
    let stock = app.stock("1").await;
    let hex = &stock.sku[4..];
    for path in [
        format!("/v1/skus/{hex}"),
        format!("/v1/skus/whs_{hex}"),
        format!("/v1/skus/sku_{}", hex.to_uppercase()),
        format!("/v1/skus/{}x", stock.sku),
        "/v1/skus/x".into(),
        "/v1/skus/%00".into(),
        "/v1/skus/%ff".into(),
        format!("/v1/promises/prm_{hex}"),
        "/v1/stock-positions/pos_1/ledger".into(),
        "/v1/nothing".into(),
        "/".into(),
    ] {
        let reply = app.get(&path).await;
        reply.problem(404, "not_found");
    }
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=2", "limit"),
        ("after=x", "after"),
        ("after=whs_0198c0de5eed70008000000000000001", "after"),
        ("sku_id=x", "sku_id"),
        ("sku_id=%00", "sku_id"),
        ("warehouse_id=sku_0198c0de5eed70008000000000000001", "warehouse_id"),
    ] {
        let body = app.get(&format!("/v1/stock-positions?{query}")).await.problem(422, "invalid_value");
        assert_eq!(body["errors"][0]["field"], field, "{query}: {body}");
    }
    app.get("/v1/promises?state=lost").await.problem(422, "invalid_value");
    app.get("/v1/skus?code=%00").await.problem(422, "invalid_value");
    for (path, field) in [
        ("/v1/skus?code=%ff", "code"),
        ("/v1/skus?%ff=1", "\u{fffd}"),
        ("/v1/skus?unknown=1", "unknown"),
        ("/v1/skus?Code=1", "Code"),
        ("/v1/promises?limit=2&sku=sku_0198c0de5eed70008000000000000001", "sku"),
        ("/v1/tenant?limit=1", "limit"),
    ] {
        let body = app.get(path).await.problem(422, "invalid_value");
        assert_eq!(body["errors"][0]["field"], field, "{path}: {body}");
    }
    let put = app.request(Method::PUT, "/v1/skus").bearer_auth(&app.token).header("idempotency-key", "k");
    app.send(put.json(&json!({}))).await.problem(405, "method_not_allowed");
    for value in ["", "Bearer", "Bearer ", "Basic abc", "Bearer thk_a_b_c", "Bearer \u{e9}", "thk_x"] {
        let request = app.request(Method::GET, "/v1/tenant").header("authorization", value.as_bytes());
        let reply = app.send(request).await;
        reply.problem(401, "unauthorized");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    let bearer = format!("Bearer {}", app.token);
    let both =
        app.request(Method::GET, "/v1/tenant").header("authorization", "Bearer x").header("authorization", bearer);
    app.send(both).await.problem(401, "unauthorized");
    let none = app.request(Method::GET, "/v1/tenant");
    app.send(none).await.problem(401, "unauthorized");
    app.finish().await;
}

#[tokio::test]
async fn lists_are_paged_by_key_and_rows_that_come_meanwhile_hide_none() {
    let app = App::start().await;
    for n in 0..5 {
        app.sku(&format!("S{n}")).await;
    }
    let mut seen = Vec::new();
    let mut next = String::new();
    loop {
        let page = app.get(&format!("/v1/skus?limit=2{next}")).await.ok();
        for item in page["items"].as_array().expect("items") {
            seen.push(item["code"].as_str().expect("a code").to_owned());
        }
        if seen.len() == 2 {
            app.sku("S5").await;
        }
        match page["next"].as_str() {
            Some(after) => next = format!("&after={after}"),
            None => break,
        }
    }
    assert_eq!(seen, ["S0", "S1", "S2", "S3", "S4", "S5"]);
    let stock = app.stock("100").await;
    for n in 0..3 {
        app.allocate(&format!("a{n}"), &stock, "1").await.ok();
    }
    let id = app.position(&stock).await["position_id"].as_str().expect("an id").to_owned();
    let page = app.get(&format!("/v1/stock-positions/{id}/ledger?limit=3")).await.ok();
    assert_eq!((page["items"].as_array().map(Vec::len), &page["next"]), (Some(3), &json!("3")));
    let page = app.get(&format!("/v1/stock-positions/{id}/ledger?limit=3&after=3")).await.ok();
    assert_eq!((page["items"][0]["sequence"].as_i64(), page["next"].is_null()), (Some(4), true));
    let open = app.get("/v1/promises?state=open").await.ok();
    assert_eq!(open["items"].as_array().map(Vec::len), Some(3));
    assert_eq!(app.get("/v1/promises?state=closed").await.ok()["items"], json!([]));
    app.finish().await;
}
