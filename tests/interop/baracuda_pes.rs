//! Calls of the crate between PEs, which its own tests make with themselves only.
use baracuda_nvshmem::{Context, Team, UniqueId};

const COUNT: usize = 1000;

/// The elements of a buffer on this PE: host memory, as the library under the crate has it.
fn elements<'a>(at: *mut f32) -> &'a mut [f32] {
    unsafe { core::slice::from_raw_parts_mut(at, COUNT) }
}

#[test]
fn neighbours_put_and_get() {
    let ctx = Context::init().expect("a library");
    let (me, pes) = (ctx.my_pe(), ctx.n_pes());
    let (next, last) = ((me + 1) % pes, (me + pes - 1) % pes);
    let mut mine = ctx.malloc::<f32>(COUNT).expect("mine");
    let mut inbox = ctx.malloc::<f32>(COUNT).expect("inbox");
    elements(mine.as_mut_ptr()).fill(me as f32 + 0.5);
    ctx.sync_all().expect("sync_all");
    ctx.put(&inbox, &mine, COUNT, next).expect("put");
    ctx.fence().expect("fence");
    ctx.quiet().expect("quiet");
    ctx.barrier_all().expect("barrier_all");
    assert!(elements(inbox.as_mut_ptr()).iter().all(|value| *value == last as f32 + 0.5));
    ctx.get(&inbox, &mine, COUNT, next).expect("get");
    assert!(elements(inbox.as_mut_ptr()).iter().all(|value| *value == next as f32 + 0.5));
    ctx.barrier_all().expect("barrier_all");
}

#[test]
fn teams_are_split_and_translated() {
    let ctx = Context::init().expect("a library");
    let (me, pes) = (ctx.my_pe(), ctx.n_pes());
    let size = (pes + 1) / 2;
    assert_eq!(Team::SHARED.n_pes().expect("n_pes"), pes);
    let even = Team::WORLD.split_strided(0, 2, size).expect("split_strided");
    assert_eq!(even.is_some(), me % 2 == 0);
    if let Some(even) = even {
        assert_eq!(even.my_pe().expect("my_pe"), me / 2);
        assert_eq!(even.n_pes().expect("n_pes"), size);
        assert_eq!(even.translate_pe(size - 1, Team::WORLD).expect("translate_pe"), 2 * (size - 1));
        even.destroy().expect("destroy");
    }
    Team::WORLD.destroy().expect("nothing");
    ctx.barrier_all().expect("barrier_all");
}

#[test]
fn a_context_ends_and_begins_again() {
    let mut ctx = Context::init().expect("a library");
    ctx.finalize().expect("finalize");
    ctx.finalize().expect("again");
    let ctx = Context::init().expect("begun again");
    ctx.barrier_all().expect("barrier_all");
}

#[test]
fn identifiers_travel() {
    let id = UniqueId::new().expect("an identifier");
    let raw = id.as_raw();
    let bytes = |id: &UniqueId| unsafe { core::mem::transmute::<_, [u8; 128]>(id.as_raw()) };
    assert_eq!(bytes(&UniqueId::from_raw(raw)), bytes(&id));
}
