//! Commands that whoever runs the server sends: the same commands, through the same engine.

use domain::{Engine, WorkingSet};
use engine::{
    Actor, Answered, Command, Encode, Fault, Head,
    answer::{Answer, Fingerprint, Key},
};
use kernel::id::{CallId, TenantId};
use serde_json::Value;

/// A command under its key. The fingerprint covers `intent`, which must say all that the command
/// does: the same key with another intent is refused.
pub async fn submit<C: Command<WorkingSet>>(
    engine: &Engine,
    tenant: TenantId,
    key: &str,
    intent: &Value,
    command: C,
    encode: Encode<C::Done, C::Reject>,
) -> Result<Answer, Fault> {
    submit_or_replay(engine, tenant, key, intent, command, encode).await.map(|answered| answered.answer)
}

/// As [`submit`], for whoever must tell a first answer from a replay.
pub async fn submit_or_replay<C: Command<WorkingSet>>(
    engine: &Engine,
    tenant: TenantId,
    key: &str,
    intent: &Value,
    command: C,
    encode: Encode<C::Done, C::Reject>,
) -> Result<Answered, Fault> {
    let body = serde_json::to_vec(intent).map_err(|error| Fault::Bug(error.to_string()))?;
    let fingerprint =
        Fingerprint::of("OPERATOR", C::NAME, None, &body).map_err(|error| Fault::Bug(error.to_string()))?;
    let key = Key::new(key).ok_or_else(|| Fault::Bug(format!("{key:?} is no idempotency key")))?;
    let call = CallId::mint();
    let head =
        Head { call, tenant, key, fingerprint, actor: Actor::operator(), correlation: call.to_string(), remote: None };
    engine.submit(head, command, encode).await
}

/// The JSON of a good answer, or the detail of the refusal.
pub fn done(answer: Result<Answer, Fault>) -> Result<Value, String> {
    let answer = answer.map_err(|fault| fault.to_string())?;
    let body: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    if answer.status < 300 {
        return Ok(body);
    }
    Err(body.get("detail").and_then(Value::as_str).unwrap_or("refused").to_owned())
}
