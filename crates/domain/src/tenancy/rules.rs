//! Who may give what, and that a tenant keeps somebody who can let others in.

use super::model::{Headcount, Role, State};
use crate::registry::PERMISSIONS;

/// Why a list of permissions may not be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ungiven {
    Unknown(String),
    Exceeds(String),
}

/// The permissions in order, each once; or the first that is none, or that the giver lacks. `within`
/// is what the giver may do, `None` for whoever runs the server.
pub fn give(permissions: &[String], within: Option<&[String]>) -> Result<Vec<String>, Ungiven> {
    for permission in permissions {
        if !PERMISSIONS.iter().any(|known| known.0 == permission) {
            return Err(Ungiven::Unknown(permission.clone()));
        }
    }
    if let Some(permission) = exceeding(permissions, within) {
        return Err(Ungiven::Exceeds(permission.clone()));
    }
    let mut permissions = permissions.to_vec();
    permissions.sort_unstable();
    permissions.dedup();
    Ok(permissions)
}

/// The first of the permissions that a giver lacks.
pub fn exceeding<'a>(permissions: &'a [String], within: Option<&[String]>) -> Option<&'a String> {
    let within = within?;
    // GUARD(give_within): whoever may manage keys and people would make one that may do all.
    permissions.iter().find(|permission| !within.contains(permission))
}

/// A user of this state comes to the role (`by` 1) or leaves it (`by` -1).
pub fn count(people: &mut Headcount, role: &mut Role, state: State, by: i32) {
    let enabled = if state == State::Disabled { 0 } else { by };
    let active = if state == State::Active { by } else { 0 };
    role.users_enabled += enabled;
    role.users_active += active;
    people.users_enabled += enabled;
    if role.manages() {
        people.managers_enabled += enabled;
        people.managers_active += active;
    }
}

/// The role gets other permissions, and all its users with it.
pub fn permit(people: &mut Headcount, role: &mut Role, permissions: Vec<String>) {
    let before = role.manages();
    role.permissions = permissions;
    let by = i32::from(role.manages()) - i32::from(before);
    people.managers_enabled += by * role.users_enabled;
    people.managers_active += by * role.users_active;
}

/// Whether a tenant may go from one count to the other: among its people stays a manager, and of
/// those who can log in, too, once there was one.
pub fn keeps_manager(before: &Headcount, after: &Headcount) -> bool {
    (after.managers_enabled > 0 || after.users_enabled == 0)
        && (after.managers_active > 0 || before.managers_active == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Active, Disabled, Invited};

    fn role(permissions: &[&str]) -> Role {
        Role {
            name: "r".into(),
            name_folded: "r".into(),
            permissions: permissions.iter().map(|&text| text.into()).collect(),
            users_enabled: 0,
            users_active: 0,
            version: 1,
            created_at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn ten_04_nobody_gives_what_they_lack() {
        let all = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let clerk = all(&["catalog.read", "inventory.read"]);
        for (given, within, result) in [
            (all(&["inventory.read", "catalog.read", "inventory.read"]), Some(&clerk), Ok(clerk.clone())),
            (all(&[]), Some(&clerk), Ok(all(&[]))),
            (all(&["tenancy.manage"]), Some(&clerk), Err(Ungiven::Exceeds("tenancy.manage".into()))),
            (all(&["tenancy.manage"]), None, Ok(all(&["tenancy.manage"]))),
            (all(&["operator"]), None, Err(Ungiven::Unknown("operator".into()))),
        ] {
            assert_eq!(give(&given, within.map(Vec::as_slice)), result, "{given:?}");
        }
    }

    #[test]
    fn ten_04_the_last_manager_is_told() {
        let (mut manager, mut clerk) = (role(&["tenancy.manage"]), role(&["inventory.read"]));
        let mut people = Headcount::default();
        let mut step = |role: &mut Role, moves: &[(State, i32)]| {
            let before = people;
            let mut after = people;
            for (state, by) in moves {
                count(&mut after, role, *state, *by);
            }
            people = after;
            keeps_manager(&before, &after)
        };
        assert!(!step(&mut clerk, &[(Invited, 1)]), "the first one lets others in");
        assert!(step(&mut manager, &[(Invited, 1)]));
        assert!(step(&mut clerk, &[(Invited, -1), (Active, 1)]));
        assert!(step(&mut manager, &[(Invited, -1), (Active, 1)]));
        assert!(step(&mut manager, &[(Invited, 1)]));
        assert!(!step(&mut manager, &[(Active, -1), (Disabled, 1)]), "the other one has no password yet");
        assert_eq!((manager.users_enabled, manager.users_active), (1, 0));
        assert_eq!(people, Headcount { users_enabled: 2, managers_enabled: 1, managers_active: 0 });
    }

    #[test]
    fn ten_04_a_role_that_may_manage_no_more_takes_its_managers_along() {
        let mut manager = role(&["tenancy.manage"]);
        let mut people = Headcount::default();
        count(&mut people, &mut manager, Active, 1);
        count(&mut people, &mut manager, Invited, 1);
        let before = people;
        permit(&mut people, &mut manager, Vec::new());
        assert_eq!(people, Headcount { users_enabled: 2, managers_enabled: 0, managers_active: 0 });
        assert!(!keeps_manager(&before, &people));
        permit(&mut people, &mut manager, vec!["tenancy.manage".into()]);
        assert_eq!(people, before);
    }
}
