//! A new warehouse.

use super::{CodeTaken, WRITE, model::Warehouse, sql::WarehouseCodes};
use crate::{Cx, Wants, WorkingSet};
use engine::{Command, Next, command::Permission, table::Look};
use kernel::{
    id::WarehouseId,
    text::{Code, Name, fold},
};
use serde::{Deserialize, Serialize};

/// How a new warehouse is described.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWarehouse {
    pub code: Code,
    pub name: Name,
}

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct WarehouseCreated {
    pub warehouse_id: WarehouseId,
    pub code: Code,
}

impl Command<WorkingSet> for CreateWarehouse {
    const NAME: &'static str = "catalog.create_warehouse";
    const NEEDS: Permission = WRITE;
    type Done = WarehouseCreated;
    type Reject = CodeTaken;

    fn wants(&self, set: &WorkingSet, wants: &mut Wants) -> Next {
        let code = fold(&self.code);
        match set.warehouse_code.look(&code) {
            Look::Unasked => {
                wants.warehouse_code.read(code);
                return Next::after::<WarehouseCodes>();
            }
            Look::Missing => {}
            // It goes into the refusal.
            Look::Row(existing) => wants.warehouse.read(*existing),
        }
        Next::Complete
    }

    fn decide(&self, cx: &mut Cx<'_>) -> Result<WarehouseCreated, CodeTaken> {
        let code_folded = fold(&self.code);
        if let Some(existing) = cx.set.warehouse_code.get(&code_folded) {
            let code = cx.set.warehouse.get(existing).map(|warehouse| warehouse.code.clone()).unwrap_or_default();
            return Err(CodeTaken { what: "warehouse", code, existing: existing.to_string() });
        }
        let warehouse_id = cx.id();
        cx.set.warehouse_code.insert(code_folded.clone(), warehouse_id);
        let (code, name) = (self.code.to_string(), self.name.to_string());
        cx.set.warehouse.insert(warehouse_id, Warehouse { code, code_folded, name, created_at: cx.at });
        Ok(WarehouseCreated { warehouse_id, code: self.code.clone() })
    }
}
