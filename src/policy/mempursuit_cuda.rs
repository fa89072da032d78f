//! The MemPursuit selector on a GPU.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{Description, Policy, Selection, vectors};
use crate::error::{Error, Result};
use crate::measure::clock::Stages;
use crate::pool::{Pool, Store, StoredQuery, Vectors};
use crate::pursuit::cuda::{Candidates, Gpu, Job, Query, Refusal, Resident, Times};
use crate::pursuit::{Elements, Options, Path};

/// MemPursuit on one GPU, many pools in one launch, in the order of the CPU's.
///
/// A store goes to the device when the first pool over it comes, and stays there until the memory is needed for another;
/// pools with inline vectors bring theirs with every call. A batch that does not fit is halved.
#[derive(Debug)]
pub struct MemPursuitCuda {
    gpu: Gpu,
    options: Options,
    device: String,
    stores: Mutex<Vec<Arc<ResidentStore>>>,
}

/// A store with its copy on the device.
#[derive(Debug)]
struct ResidentStore {
    store: Arc<Store>,
    memories: Resident,
    queries: Resident,
}

/// Where a pool's vectors lie for one call.
enum Place<'a> {
    /// Nothing to do.
    Empty,
    /// In a store on the device.
    Stored(Arc<ResidentStore>, &'a StoredQuery, &'a [u32]),
    /// In the call's own upload of this index, from this row on.
    Brought { upload: usize, first: usize, count: usize, query: &'a [f32] },
}

/// Vectors of one dimension that a call brings along.
struct Upload {
    dimension: usize,
    rows: Vec<f32>,
}

impl MemPursuitCuda {
    /// The selector on this device, which reports call `device`; the budget comes with each call.
    pub fn new(gpu: Gpu, device: impl Into<String>, options: Options) -> Self {
        Self { gpu, options, device: device.into(), stores: Mutex::default() }
    }

    fn resident(&self, store: &Arc<Store>) -> Result<Arc<ResidentStore>> {
        let mut stores = self.stores.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = stores.iter().find(|known| Arc::ptr_eq(&known.store, store)) {
            return Ok(known.clone());
        }
        let resident = loop {
            match self.upload(store) {
                // The store that came first goes first; what a pool of this call uses lives until the call ends.
                Err(Error::OutOfMemory(_)) if !stores.is_empty() => drop(stores.remove(0)),
                uploaded => break Arc::new(uploaded?),
            }
        };
        stores.push(resident.clone());
        Ok(resident)
    }

    fn upload(&self, store: &Arc<Store>) -> Result<ResidentStore> {
        let dimension = store.dimension();
        Ok(ResidentStore {
            store: store.clone(),
            memories: self.gpu.upload(store.memories(), dimension)?,
            queries: self.gpu.upload_queries(store.all_queries(), dimension)?,
        })
    }

    fn place<'a>(&self, pool: &'a Pool, uploads: &mut Vec<Upload>) -> Result<Place<'a>> {
        match pool.require_vectors()? {
            Vectors::Stored { store, query, rows } => Ok(Place::Stored(self.resident(store)?, query, rows)),
            Vectors::Inline { query, rows, dimension } => {
                let same = |upload: &Upload| upload.dimension == *dimension;
                let upload = uploads.iter().position(same).unwrap_or_else(|| {
                    uploads.push(Upload { dimension: *dimension, rows: Vec::new() });
                    uploads.len() - 1
                });
                let brought = &mut uploads[upload].rows;
                let first = brought.len() / dimension;
                brought.extend_from_slice(rows);
                Ok(Place::Brought { upload, first, count: rows.len() / dimension, query })
            }
            _ => Ok(Place::Empty),
        }
    }

    fn run(&self, pools: &[Pool], budget: usize) -> Result<Vec<Result<Selection>>> {
        let start = Instant::now();
        let mut uploads = Vec::new();
        let places: Vec<Result<Place<'_>>> =
            pools.iter().map(|pool| self.place(pool, &mut uploads)).collect();
        if places.iter().any(|place| matches!(place, Err(Error::OutOfMemory(_)))) {
            return Err(Error::OutOfMemory("the stores of this call do not fit on the card together".into()));
        }
        let placed = start.elapsed();
        let brought: Vec<Resident> = uploads
            .iter()
            .map(|upload| self.gpu.upload(Elements::F32(&upload.rows), upload.dimension))
            .collect::<Result<_>>()?;
        let uploaded = start.elapsed() - placed;
        let jobs: Vec<Job<'_>> = places
            .iter()
            .filter_map(|place| match place.as_ref().ok()? {
                Place::Empty => None,
                Place::Stored(resident, query, rows) => Some(Job {
                    memories: &resident.memories,
                    candidates: Candidates::Rows(rows),
                    query: match query {
                        StoredQuery::Row(row) => Query::Resident(&resident.queries, *row as usize),
                        StoredQuery::Inline(vector) => Query::Given(Elements::F32(vector)),
                    },
                }),
                Place::Brought { upload, first, count, query } => Some(Job {
                    memories: &brought[*upload],
                    candidates: Candidates::Span { first: *first, count: *count },
                    query: Query::Given(Elements::F32(query)),
                }),
            })
            .collect();
        let batch = self.gpu.pursue(&jobs, &Options { budget, ..self.options })?;
        // What pools bring along is gathered and uploaded before the batch's own preparation begins.
        let Times { prepare, upload, compute, read_back } = batch.times;
        let times = Times { prepare: prepare + placed, upload: upload + uploaded, compute, read_back };
        let stages = share(times, jobs.len());
        let mut paths = batch.paths.into_iter();
        let answers = pools.iter().zip(places).map(|(pool, place)| match place? {
            Place::Empty => Ok(Selection::default()),
            _ => answer(pool, paths.next(), &stages),
        });
        Ok(answers.collect())
    }
}

impl Policy for MemPursuitCuda {
    fn name(&self) -> &str {
        "mempursuit-cuda"
    }

    fn describe(&self) -> Description {
        Description { device: self.device.clone(), ..Description::selector("f32+f64") }
    }

    fn select(&self, pool: &Pool, budget: usize) -> Result<Selection> {
        self.run(std::slice::from_ref(pool), budget)?.pop().unwrap_or_else(|| Ok(Selection::default()))
    }

    fn select_many(&self, pools: &[Pool], budget: usize) -> Vec<Result<Selection>> {
        match self.run(pools, budget) {
            Ok(answers) => answers,
            Err(fault) if pools.len() < 2 => vec![Err(fault)],
            Err(Error::OutOfMemory(_)) => {
                let (first, second) = pools.split_at(pools.len() / 2);
                let mut answers = self.select_many(first, budget);
                answers.extend(self.select_many(second, budget));
                answers
            }
            // A device that fails is not asked again for each pool.
            Err(Error::Device(why)) => pools.iter().map(|_| Err(Error::Device(why.clone()))).collect(),
            // What is wrong with the call is told for each pool.
            Err(_) => pools.iter().map(|pool| self.select(pool, budget)).collect(),
        }
    }

    fn chunk(&self) -> usize {
        512
    }
}

fn answer(pool: &Pool, path: Option<Result<Path, Refusal>>, stages: &Stages) -> Result<Selection> {
    match path {
        Some(Ok(path)) => Ok(Selection { stages: stages.clone(), ..vectors::selection(path) }),
        Some(Err(Refusal::Vectors(fault))) => Err(vectors::locate(pool, fault)),
        Some(Err(refusal)) => Err(Error::pool(&pool.id, refusal.to_string())),
        None => Err(Error::Device("the GPU answered for fewer pools than it was given".into())),
    }
}

/// A pool's share of a batch's time.
fn share(times: Times, pools: usize) -> Stages {
    let mut stages = Stages::default();
    let parts = [
        ("prepare", times.prepare),
        ("upload", times.upload),
        ("compute", times.compute),
        ("read-back", times.read_back),
    ];
    for (name, time) in parts {
        stages.add(name, time / pools.max(1) as u32);
    }
    stages
}
