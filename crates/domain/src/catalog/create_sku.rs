//! A new SKU.

use super::{CodeTaken, WRITE, model::Sku, sql::SkuCodes};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, command::Permission, table::Look};
use kernel::{
    id::SkuId,
    text::{Code, Name, Unit, fold},
};
use serde::{Deserialize, Deserializer, Serialize, de};

/// How a new SKU is described.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSku {
    pub code: Code,
    pub name: Name,
    pub unit: Unit,
    /// Digits after the point that quantities of it may have; 0 where it is counted in pieces.
    #[serde(default, deserialize_with = "decimals")]
    #[schema(minimum = 0, maximum = 6)]
    pub decimals: u8,
}

fn decimals<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    let decimals = u8::deserialize(deserializer)?;
    if u32::from(decimals) > kernel::quantity::DECIMALS_MAX {
        return Err(de::Error::custom("must be a whole number from 0 to 6"));
    }
    Ok(decimals)
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SkuCreated {
    pub sku_id: SkuId,
    pub code: Code,
}

impl Command<WorkingSet> for CreateSku {
    const NAME: &'static str = "catalog.create_sku";
    const NEEDS: Permission = WRITE;
    type Done = SkuCreated;
    type Reject = CodeTaken;

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        let code = fold(&self.code);
        match set.sku_code.look(&code) {
            Look::Unasked => {
                wants.sku_code.read(code);
                return Next::after::<SkuCodes>();
            }
            Look::Missing => {}
            // It goes into the refusal.
            Look::Row(existing) => wants.sku.read(*existing),
        }
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<SkuCreated, CodeTaken> {
        let code_folded = fold(&self.code);
        if let Some(existing) = cx.set.sku_code.get(&code_folded) {
            let code = cx.set.sku.get(existing).map(|sku| sku.code.clone()).unwrap_or_default();
            return Err(CodeTaken { what: "SKU", code, existing: existing.to_string() });
        }
        let sku_id = cx.id();
        cx.set.sku_code.insert(code_folded.clone(), sku_id);
        cx.set.sku.insert(
            sku_id,
            Sku {
                code: self.code.to_string(),
                code_folded,
                name: self.name.to_string(),
                unit: self.unit.to_string(),
                decimals: self.decimals,
                created_at: cx.at,
            },
        );
        Ok(SkuCreated { sku_id, code: self.code.clone() })
    }
}
