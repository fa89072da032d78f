//! The real pool file beside the checkout, where it is there: 1,540 LoCoMo questions over one store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rerank_bench::pool::jsonl::Reader;
use rerank_bench::pool::{Pool, StoredQuery, Vectors};

fn locomo() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/locomo");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no LoCoMo data beside the checkout");
    None
}

#[test]
fn every_pool_is_read_and_shares_the_store() {
    let Some(folder) = locomo() else { return };
    let pools: Vec<Pool> =
        Reader::open(folder.join("pools.jsonl")).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(pools.len(), 1540);
    let store = |pool: &Pool| match &pool.vectors {
        Vectors::Stored { store, .. } => Arc::clone(store),
        other => panic!("pool {}: {other:?}", pool.id),
    };
    let first = store(&pools[0]);
    assert_eq!((first.len(), first.queries(), first.dimension()), (5882, 1986, 384));
    assert!(pools.iter().all(|pool| Arc::ptr_eq(&store(pool), &first)));

    let pool = &pools[0];
    assert_eq!((pool.id.as_str(), pool.len(), pool.category.as_deref()), ("q0", 200, Some("temporal")));
    assert_eq!(pool.candidate_id(0), "26/D1:3");
    assert_eq!(pool.gold, ["26/D1:3"]);
    let Vectors::Stored { query, rows, .. } = &pool.vectors else { unreachable!() };
    assert_eq!((query, &rows[..3]), (&StoredQuery::Row(0), &[2, 195, 110][..]));
    for pool in &pools {
        let (query, texts) = pool.texts().unwrap();
        assert!(!query.is_empty() && texts.iter().all(|text| !text.is_empty()));
        assert_eq!(texts.len(), 200.min(pool.len()));
    }
}
