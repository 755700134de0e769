//! How often a login may be tried: for one user of one tenant, and from one address.
//!
//! Invariant: bounded, whatever strangers send: what is counted falls into a fixed number of places, by
//! a hash that nobody outside knows. Two that share a place share its tries.

use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock, MonotonicClock},
};
use std::{
    hash::{BuildHasher, Hash, RandomState},
    net::IpAddr,
    num::NonZeroU32,
    time::Duration,
};

/// Logins of one user at once, and one more each so often.
const USER_TRIES: NonZeroU32 = NonZeroU32::new(10).expect("not zero");
const USER_TRY_EVERY: Duration = Duration::from_secs(6);
/// Logins from one address at once, and one more each so often. Many people may sit behind one.
const REMOTE_TRIES: NonZeroU32 = NonZeroU32::new(100).expect("not zero");
const REMOTE_TRY_EVERY: Duration = Duration::from_millis(500);
/// Places that tries are counted in.
const PLACES: u64 = 1 << 16;

pub struct Limits {
    hash: RandomState,
    users: DefaultKeyedRateLimiter<u64>,
    remotes: DefaultKeyedRateLimiter<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        let quota = |every, tries| Quota::with_period(every).expect("a period is not zero").allow_burst(tries);
        Self {
            hash: RandomState::new(),
            users: RateLimiter::keyed(quota(USER_TRY_EVERY, USER_TRIES)),
            remotes: RateLimiter::keyed(quota(REMOTE_TRY_EVERY, REMOTE_TRIES)),
        }
    }
}

impl Limits {
    /// Counts a try, or tells how long to wait.
    pub fn check(&self, tenant: &str, email_folded: &str, remote: Option<IpAddr>) -> Result<(), Duration> {
        if let Some(remote) = remote {
            self.check_in(&self.remotes, network(remote))?;
        }
        self.check_in(&self.users, (tenant, email_folded))
    }

    fn check_in(&self, limiter: &DefaultKeyedRateLimiter<u64>, of: impl Hash) -> Result<(), Duration> {
        let place = self.hash.hash_one(of) % PLACES;
        limiter.check_key(&place).map_err(|until| until.wait_time_from(MonotonicClock.now()))
    }
}

/// Whoever has one IPv6 address has the 2^64 of its network.
fn network(remote: IpAddr) -> u128 {
    match remote.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_04_tries_are_counted_by_user_and_by_address() {
        let limits = Limits::default();
        let check = |tenant: &str, email: &str, remote: &str| {
            limits.check(tenant, email, Some(remote.parse().expect("an address")))
        };
        for _ in 0..USER_TRIES.get() {
            assert_eq!(check("kestrel", "mira", "2001:db8::1"), Ok(()));
        }
        let wait = check("kestrel", "mira", "192.0.2.7").expect_err("from wherever");
        assert!(wait > Duration::ZERO && wait <= USER_TRY_EVERY, "{wait:?}");
        assert_eq!(check("heron", "mira", "192.0.2.7"), Ok(()), "another tenant's");
        let tries = (0..REMOTE_TRIES.get() + 5).filter(|n| check("kestrel", &n.to_string(), "2001:db8::2").is_ok());
        assert!(tries.count() <= (REMOTE_TRIES.get() - USER_TRIES.get() + 2) as usize, "one network, one count");
    }

    #[test]
    fn ten_04_strangers_cannot_make_the_counts_grow() {
        let limits = Limits::default();
        for n in 0..200_000u32 {
            let _ = limits.check("kestrel", &n.to_string(), Some(IpAddr::from(n.to_be_bytes())));
        }
        assert!(limits.users.len() <= PLACES as usize && limits.remotes.len() <= PLACES as usize);
    }
}
