//! What is measured: workloads, the ways each is run, and the ratios with their goals and floors.

use super::stock::Shape;

/// A way to allocate, by the name it is reported under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Ours,
    LockWrite,
    Conditional,
    OneCall,
    OneCallPoolHot,
    OursHttp,
    LockWriteHttp,
    Trivial,
}

impl Method {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "tallyhold",
            Self::LockWrite => "b1 read-lock-write",
            Self::Conditional => "b2 conditional update",
            Self::OneCall => "b3 one call",
            Self::OneCallPoolHot => "b3 one call, pool of 2",
            Self::OursHttp => "tallyhold over HTTP",
            Self::LockWriteHttp => "b1 over HTTP",
            Self::Trivial => "trivial POST",
        }
    }
}

/// What a ratio compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// More is better.
    PerSecond,
    /// Less is better.
    P50,
}

/// Ours over another's, with what it should be and what it must be.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    pub name: &'static str,
    pub over: Method,
    pub of: Of,
    pub goal: f64,
    pub floor: f64,
}

/// A workload; its first method is the one that is compared.
pub struct Case {
    pub id: &'static str,
    pub workload: &'static str,
    pub callers: usize,
    pub shape: Shape,
    pub methods: &'static [Method],
    pub ratios: &'static [Ratio],
}

const HOT: Shape = Shape { tenants: 1, skus_each: 1, skew: 0.0 };
const UNIFORM: Shape = Shape { tenants: 1, skus_each: 100_000, skew: 0.0 };
const ZIPF: Shape = Shape { tenants: 1, skus_each: 10_000, skew: 1.1 };
const TENANTS: Shape = Shape { tenants: 64, skus_each: 100, skew: 0.0 };

const fn b1(goal: f64, floor: f64) -> Ratio {
    Ratio { name: "ratio_b1", over: Method::LockWrite, of: Of::PerSecond, goal, floor }
}
const fn b3(goal: f64, floor: f64) -> Ratio {
    Ratio { name: "ratio_b3", over: Method::OneCall, of: Of::PerSecond, goal, floor }
}
const fn b1_http(goal: f64, floor: f64) -> Ratio {
    Ratio { name: "ratio_b1", over: Method::LockWriteHttp, of: Of::PerSecond, goal, floor }
}

use Method::{Conditional, LockWrite, LockWriteHttp, OneCall, OneCallPoolHot, Ours, OursHttp, Trivial};

/// The measured goals of this program, in their order; P5's memory is `memory`'s affair.
pub const CASES: &[Case] = &[
    Case {
        id: "P1",
        workload: "one hot SKU",
        callers: 256,
        shape: HOT,
        methods: &[Ours, LockWrite, Conditional, OneCall],
        ratios: &[b1(28.0, 18.0), b3(16.0, 10.0)],
    },
    Case {
        id: "P2",
        workload: "one hot SKU",
        callers: 64,
        shape: HOT,
        methods: &[Ours, LockWrite, OneCall, OneCallPoolHot],
        ratios: &[
            b1(20.0, 12.0),
            b3(11.0, 7.0),
            Ratio { name: "ratio_b3_pool_2", over: OneCallPoolHot, of: Of::PerSecond, goal: 7.5, floor: 5.0 },
        ],
    },
    Case {
        id: "P3",
        workload: "100,000 SKUs uniform",
        callers: 256,
        shape: UNIFORM,
        methods: &[Ours, LockWrite, OneCall],
        ratios: &[b1(12.0, 8.0), b3(5.5, 3.5)],
    },
    Case {
        id: "P3",
        workload: "10,000 SKUs Zipf 1.1",
        callers: 256,
        shape: ZIPF,
        methods: &[Ours, LockWrite, OneCall],
        ratios: &[b1(15.0, 9.0), b3(8.5, 5.0)],
    },
    Case {
        id: "P4",
        workload: "over HTTP, one hot SKU",
        callers: 256,
        shape: HOT,
        methods: &[OursHttp, LockWriteHttp, Trivial],
        ratios: &[
            b1_http(19.0, 12.0),
            Ratio { name: "ratio_trivial", over: Trivial, of: Of::PerSecond, goal: 0.25, floor: 0.12 },
        ],
    },
    Case {
        id: "P4",
        workload: "over HTTP, 100,000 SKUs uniform",
        callers: 256,
        shape: UNIFORM,
        methods: &[OursHttp, LockWriteHttp],
        ratios: &[b1_http(8.5, 5.5)],
    },
    Case {
        id: "P5",
        workload: "idle, p50 of a single caller",
        callers: 1,
        shape: HOT,
        methods: &[Ours, OneCall],
        ratios: &[Ratio { name: "ratio_b3", over: OneCall, of: Of::P50, goal: 1.3, floor: 1.6 }],
    },
    Case {
        id: "P12",
        workload: "64 tenants of 100 SKUs",
        callers: 128,
        shape: TENANTS,
        methods: &[Ours, OneCall],
        ratios: &[b3(3.0, 1.2)],
    },
];

/// Every id that can be asked for.
pub const IDS: &[&str] = &["P1", "P2", "P3", "P4", "P5", "P12"];
