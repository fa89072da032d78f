//! The hub: its cache, and downloads from a local server that stands in for it.
#![cfg(feature = "neural")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rerank_bench::rerank::{OpenOptions, open};
use rerank_bench::weights::Hub;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const ID: &str = "someone/tiny-reranker";

/// Serves a folder as the hub serves a repository: `/ID/resolve/REVISION/FILE`, ranges, etag and commit headers.
struct StandInHub {
    endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
    /// The next response body of this file breaks off half-way, this many times.
    breaks: Arc<AtomicUsize>,
}

impl StandInHub {
    fn serve(folder: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let breaks = Arc::new(AtomicUsize::new(0));
        let (log, left) = (requests.clone(), breaks.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (folder, log, left) = (folder.clone(), log.clone(), left.clone());
                std::thread::spawn(move || answer(stream, &folder, &log, &left));
            }
        });
        Self { endpoint, requests, breaks }
    }

    fn hub(&self, cache: &Path) -> Hub {
        Hub {
            endpoint: self.endpoint.clone(),
            cache: cache.to_owned(),
            token: Some("secret".to_owned()),
            offline: false,
            progress_bar: false,
        }
    }
}

fn answer(mut stream: TcpStream, folder: &Path, log: &Mutex<Vec<String>>, breaks: &AtomicUsize) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let header = |name: &str| {
        headers.iter().find_map(|h| h.to_lowercase().strip_prefix(&format!("{name}: ")).map(str::to_owned))
    };
    assert_eq!(header("authorization").as_deref(), Some("bearer secret"));
    let range = header("range").unwrap_or_else(|| "bytes=0-".to_owned());
    log.lock().unwrap().push(format!("{request} {range}"));
    let path = request.split(' ').nth(1).unwrap();
    let file = path.rsplit_once("/resolve/main/").map(|(_, file)| folder.join(file));
    let Some(content) = file.and_then(|f| std::fs::read(f).ok()) else {
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        return;
    };
    let (start, end) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let start: usize = start.parse().unwrap();
    let end = end.parse::<usize>().map_or(content.len(), |last| last + 1).min(content.len());
    let body = &content[start.min(end)..end];
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{}\r\n\
         ETag: \"{:x}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        body.len(),
        end.max(1) - 1,
        content.len(),
        content.len(),
    )
    .unwrap();
    let broken = body.len() > 100_000
        && breaks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
    let sent = if broken { &body[..body.len() / 2] } else { body };
    let _ = stream.write_all(sent);
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/xlmr-tiny")
}

fn said() -> (Arc<Mutex<Vec<String>>>, impl Fn(&str)) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    (lines, move |line: &str| sink.lock().unwrap().push(line.to_owned()))
}

#[test]
fn a_model_downloads_once_resumes_and_then_needs_no_network() {
    let server = StandInHub::serve(fixture());
    let cache = tempfile::tempdir().unwrap();
    let hub = server.hub(cache.path());
    server.breaks.store(1, Ordering::SeqCst);
    let (lines, progress) = said();
    let files = hub.fetch(ID, "main", &progress).unwrap();
    assert_eq!(files.revision.as_deref(), Some(COMMIT));
    assert_eq!(files.weights.len(), 1);
    let original = std::fs::read(fixture().join("model.safetensors")).unwrap();
    assert!(std::fs::read(&files.weights[0]).unwrap() == original, "the resumed file differs");
    assert!(lines.lock().unwrap()[0].contains("downloading someone/tiny-reranker"));
    let resumed = format!("bytes={}-", original.len() / 2);
    assert!(server.requests.lock().unwrap().iter().any(|r| r.ends_with(&resumed)), "nothing was resumed");

    let requests = server.requests.lock().unwrap().len();
    let offline = Hub { offline: true, ..hub.clone() };
    assert_eq!(offline.fetch(ID, "main", &|_| ()).unwrap(), files);
    assert_eq!(offline.fetch(ID, COMMIT, &|_| ()).unwrap(), files);
    assert_eq!(hub.fetch(ID, "main", &|_| ()).unwrap(), files);
    assert_eq!(server.requests.lock().unwrap().len(), requests, "the cache was not asked first");

    let scorer = open(ID, &OpenOptions { hub: offline, ..OpenOptions::default() }, &|_| ()).unwrap();
    assert_eq!(scorer.info().revision.as_deref(), Some(COMMIT));
    assert_eq!(scorer.score("w5 w6", &["w7", "w8 w9"], 2, &mut ()).unwrap().logits.len(), 2);
}

#[test]
fn shards_are_downloaded_by_their_index() {
    let served = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json"] {
        std::fs::copy(fixture().join(file), served.path().join(file)).unwrap();
    }
    std::fs::copy(
        fixture().join("model.safetensors"),
        served.path().join("model-00001-of-00001.safetensors"),
    )
    .unwrap();
    let index = r#"{"weight_map":{"classifier.dense.bias":"model-00001-of-00001.safetensors"}}"#;
    std::fs::write(served.path().join("model.safetensors.index.json"), index).unwrap();
    let server = StandInHub::serve(served.path().to_owned());
    let cache = tempfile::tempdir().unwrap();
    let files = server.hub(cache.path()).fetch(ID, "main", &|_| ()).unwrap();
    assert!(files.weights[0].ends_with("model-00001-of-00001.safetensors"));
    assert!(server.hub(cache.path()).fetch(ID, "main", &|_| panic!("asked the network")).is_ok());
}

#[test]
fn a_pickled_checkpoint_is_refused_with_the_conversion() {
    let served = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json"] {
        std::fs::copy(fixture().join(file), served.path().join(file)).unwrap();
    }
    std::fs::write(served.path().join("pytorch_model.bin"), "pickle").unwrap();
    let server = StandInHub::serve(served.path().to_owned());
    let cache = tempfile::tempdir().unwrap();
    let error = server.hub(cache.path()).fetch(ID, "main", &|_| ()).unwrap_err().to_string();
    assert!(error.contains("pytorch_model.bin") && error.contains("save_pretrained"), "{error}");
}

#[test]
fn without_network_and_cache_one_message_names_file_places_and_ways_out() {
    let cache = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(); // freed at once
    let base = Hub {
        endpoint: format!("http://{closed}"),
        cache: cache.path().to_owned(),
        token: None,
        offline: false,
        progress_bar: false,
    };
    for offline in [true, false] {
        let hub = Hub { offline, ..base.clone() };
        let options = OpenOptions { hub, ..OpenOptions::default() };
        let error = open("bge-v2-m3", &options, &|_| ()).err().unwrap();
        assert_eq!(error.exit_code(), 1);
        let message = error.to_string();
        for part in [
            "BAAI/bge-reranker-v2-m3",
            "config.json",
            "models--BAAI--bge-reranker-v2-m3",
            "--weights random",
            "folder",
        ] {
            assert!(message.contains(part), "{part:?} is not in: {message}");
        }
        assert_eq!(message.contains("cannot be reached"), !offline, "{message}");
    }
}

#[test]
fn the_environment_is_read_as_the_hubs_own_client_reads_it() {
    let hub = |variables: &[(&str, &str)]| {
        let owned: Vec<(String, String)> =
            variables.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Hub::from_environment(&move |name| owned.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
    };
    let plain = hub(&[("HOME", "/h")]);
    assert_eq!(plain.cache, Path::new("/h/.cache/huggingface/hub"));
    assert_eq!((plain.endpoint.as_str(), plain.offline), ("https://huggingface.co", false));
    assert_eq!(hub(&[("HF_HOME", "/x")]).cache, Path::new("/x/hub"));
    assert_eq!(hub(&[("HF_HOME", "/x"), ("HF_HUB_CACHE", "/y")]).cache, Path::new("/y"));
    assert_eq!(hub(&[("HF_ENDPOINT", "http://m/")]).endpoint, "http://m");
    assert!(hub(&[("HF_HUB_OFFLINE", "1")]).offline);
    assert!(!hub(&[("HF_HUB_OFFLINE", "0")]).offline);
    assert_eq!(hub(&[("HF_TOKEN", "t ")]).token.as_deref(), Some("t"));
}
