//! Which stock codes are goods.
//!
//! Owns the rule and the list of codes that are no goods. Never looks at anything but the
//! code, folded to upper case: descriptions are notes as often as names.

/// What a code stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Goods,
    NotGoods(&'static str),
    /// Neither a form of goods nor on the list: refused, because to pass over goods loses
    /// stock in silence and to book a fee invents it.
    Unknown,
}

/// Goods are five digits and perhaps letters (85123A, 15056BL), the dotcom shop's DCGS codes
/// (DCGS0076, DCGSSBOY), SP and digits (SP1002), and PADS, which are cushion pads for a tenth
/// of a penny. Some of the codes that are no goods look like goods, so their list goes first.
/// Both from the codes that occur in "Online Retail" and "Online Retail II" (UCI).
pub fn kind(code: &str) -> Kind {
    const NOT_GOODS: [(&str, &str); 19] = [
        ("POST", "postage"),
        ("DOT", "postage"),
        ("C2", "carriage"),
        ("C3", "carriage"),
        ("23444", "next day carriage"),
        ("23574", "packing charge"),
        ("D", "discount"),
        ("M", "manual line"),
        ("S", "samples"),
        ("B", "bad debt"),
        ("ADJUST", "adjustment of an account"),
        ("ADJUST2", "adjustment of an account"),
        ("BANK CHARGES", "bank charges"),
        ("AMAZONFEE", "marketplace fee"),
        ("CRUK", "charity commission"),
        ("GIFT", "gift voucher"),
        ("22016", "gift voucher"),
        ("TEST001", "test"),
        ("TEST002", "test"),
    ];
    if let Some((_, what)) = NOT_GOODS.iter().find(|(listed, _)| *listed == code) {
        return Kind::NotGoods(what);
    }
    let digits = code.bytes().take_while(u8::is_ascii_digit).count();
    let all = |rest: &str, is: fn(&u8) -> bool| !rest.is_empty() && rest.bytes().all(|b| is(&b));
    if code.strip_prefix("GIFT_0001_").is_some_and(|rest| all(rest, u8::is_ascii_digit)) {
        Kind::NotGoods("gift voucher")
    } else if (digits == 5 && code.bytes().skip(5).all(|b| b.is_ascii_uppercase()))
        || code.strip_prefix("DCGS").is_some_and(|rest| all(rest, u8::is_ascii_alphanumeric))
        || code.strip_prefix("SP").is_some_and(|rest| all(rest, u8::is_ascii_digit))
        || code == "PADS"
    {
        Kind::Goods
    } else {
        Kind::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_codes() {
        for goods in ["85123A", "22139", "15056BL", "79323GR", "DCGS0076", "DCGS0066P", "DCGSSBOY", "SP1002", "PADS"] {
            assert_eq!(kind(goods), Kind::Goods, "{goods}");
        }
        for other in [
            "POST",
            "D",
            "M",
            "DOT",
            "BANK CHARGES",
            "AMAZONFEE",
            "S",
            "CRUK",
            "C2",
            "B",
            "22016",
            "23444",
            "23574",
            "GIFT_0001_30",
            "TEST001",
            "ADJUST2",
        ] {
            assert!(matches!(kind(other), Kind::NotGoods(_)), "{other}");
        }
        for unknown in ["8512", "851234", "A5123", "85123-A", "85123A1", "DCGS", "SP", "GIFT_0001_", "POSTX", "É"] {
            assert_eq!(kind(unknown), Kind::Unknown, "{unknown}");
        }
    }
}
