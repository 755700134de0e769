//! Access tokens: short-lived, signed, and good only while their session is.

use domain::tenancy::SessionOpen;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use kernel::id::{SessionId, TenantId, UserId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How long an access token lasts.
pub const ACCESS_LASTS: SignedDuration = SignedDuration::from_mins(15);

/// What an access token says. One that lacks any of it is none.
#[derive(Debug, Serialize, Deserialize)]
pub struct Claims {
    pub sub: UserId,
    pub org: TenantId,
    pub sid: SessionId,
    pub iat: i64,
    pub exp: i64,
}

/// Signs and reads them, with a key made from the server's secret.
pub struct Access {
    sign: EncodingKey,
    check: DecodingKey,
    rules: Validation,
}

impl Access {
    pub fn new(secret: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"tallyhold access token v1");
        hash.update(secret);
        let key: [u8; 32] = hash.finalize().into();
        // GUARD(one_algorithm): the algorithm is ours to say, not the token's.
        let mut rules = Validation::new(Algorithm::HS256);
        rules.leeway = 0;
        let expect = "a key of 32 bytes is not empty";
        let (sign, check) =
            (EncodingKey::from_secret(&key).expect(expect), DecodingKey::from_secret(&key).expect(expect));
        Self { sign, check, rules }
    }

    /// A token for a session, and until when it is good.
    pub fn sign(&self, tenant: TenantId, session: &SessionOpen) -> (String, Timestamp) {
        let until = (session.at + ACCESS_LASTS).min(session.session_expires_at);
        let claims = Claims {
            sub: session.user_id,
            org: tenant,
            sid: session.session_id,
            iat: session.at.as_second(),
            exp: until.as_second(),
        };
        let token = encode(&Header::new(Algorithm::HS256), &claims, &self.sign);
        (token.expect("claims are plain JSON"), until)
    }

    /// What a token says, if it is ours and not over.
    pub fn read(&self, token: &str) -> Option<Claims> {
        decode::<Claims>(token, &self.check, &self.rules).ok().map(|token| token.claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn claims() -> Value {
        let now = Timestamp::now().as_second();
        json!({
            "sub": UserId::mint(), "org": TenantId::mint(), "sid": SessionId::mint(), "iat": now, "exp": now + 900,
        })
    }

    #[test]
    fn case_095_ten_04_a_token_that_lacks_a_claim_or_is_over_or_anothers_is_none() {
        let access = Access::new(b"one secret");
        let sign = |claims: &Value, access: &Access| {
            encode(&Header::new(Algorithm::HS256), claims, &access.sign).expect("it is signed")
        };
        assert!(access.read(&sign(&claims(), &access)).is_some());
        for claim in ["sub", "org", "sid", "iat", "exp"] {
            let mut without = claims();
            without.as_object_mut().expect("an object").remove(claim);
            assert!(access.read(&sign(&without, &access)).is_none(), "without {claim}");
        }
        let mut odd = claims();
        odd["org"] = json!("kestrel");
        assert!(access.read(&sign(&odd, &access)).is_none());
        let mut over = claims();
        over["exp"] = json!(Timestamp::now().as_second() - 1);
        assert!(access.read(&sign(&over, &access)).is_none());
        assert!(access.read(&sign(&claims(), &Access::new(b"another secret"))).is_none());
    }

    #[test]
    fn one_algorithm() {
        let access = Access::new(b"one secret");
        let key = &access.sign;
        let other = encode(&Header::new(Algorithm::HS512), &claims(), key).expect("it is signed");
        assert!(access.read(&other).is_none());
        let signed = encode(&Header::new(Algorithm::HS256), &claims(), key).expect("it is signed");
        let body = signed.split('.').nth(1).expect("its claims");
        // {"alg":"none"}
        assert!(access.read(&format!("eyJhbGciOiJub25lIn0.{body}.")).is_none());
    }
}
