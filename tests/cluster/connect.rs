//! Each way in which there is no connection has its own words, and none of them shows a secret.

use crate::fake::cluster::FakeCluster;
use crate::fake::tls::Identity;
use dynamo_interconnect_check::cluster::call::{CallError, Cause, TlsFault};
use dynamo_interconnect_check::cluster::connect::{Cluster, ConnectError, Options, connect};
use dynamo_interconnect_check::cluster::kubeconfig::{KubeconfigFault, Surroundings};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

async fn with(kubeconfig: PathBuf) -> Result<Cluster, ConnectError> {
    let options = Options {
        kubeconfig: Some(kubeconfig),
        ..Options::default()
    };
    connect(&options, &Surroundings::default()).await
}

async fn fault(kubeconfig: PathBuf) -> ConnectError {
    match with(kubeconfig).await {
        Ok(_) => panic!("connected"),
        Err(fault) => fault,
    }
}

fn cause(fault: ConnectError) -> Cause {
    match fault {
        ConnectError::Call(CallError { cause, .. }) => cause,
        other => panic!("{other}"),
    }
}

/// An executable file in a directory of its own.
fn plugin(text: &str) -> (TempDir, String) {
    let dir = crate::tree(&[("bin/login", text)]);
    let path = dir.path().join("bin/login").display().to_string();
    (dir, path)
}

fn exec(command: &str) -> Value {
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": ["--password=canary"],
        "env": [{"name": "SECRET", "value": "canary"}], "interactiveMode": "IfAvailable",
    }})
}

const CREDENTIAL: &str = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"good"}}"#;

#[tokio::test]
async fn a_kubeconfig_connects_and_tells_namespace_and_version() {
    let fake = FakeCluster::builder().token("good").start().await;
    let cluster = with(fake.kubeconfig()).await.unwrap();
    assert_eq!(cluster.namespace, "llm");
    assert_eq!(cluster.context.as_deref(), Some("fake"));
    assert_eq!(cluster.version.as_deref(), Some("v1.36.2"));
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn a_server_that_hides_its_version_is_still_connected() {
    let refusal = json!({"reason": "Forbidden", "message": "no"});
    let fake = FakeCluster::builder()
        .fault("/version", 1, 403, refusal)
        .start()
        .await;
    assert_eq!(with(fake.kubeconfig()).await.unwrap().version, None);
}

#[tokio::test]
async fn an_expired_token() {
    let fake = FakeCluster::builder().token("good").start().await;
    let fault = fault(fake.kubeconfig_for(json!({"token": "canary-expired"}))).await;
    let words = fault.to_string();
    assert!(
        words.contains("log in again") && !words.contains("canary"),
        "{words}"
    );
    assert_eq!(cause(fault), Cause::Unauthorized);
}

#[tokio::test]
async fn an_api_server_that_is_not_there() {
    let fake = FakeCluster::builder().start().await;
    let (url, kubeconfig) = (fake.url.clone(), fake.kubeconfig());
    let copy = TempDir::new().unwrap();
    let kept = copy.path().join("kubeconfig");
    std::fs::copy(kubeconfig, &kept).unwrap();
    drop(fake);
    let fault = fault(kept).await;
    assert!(fault.to_string().contains(&url), "{fault}");
    assert_eq!(
        cause(fault),
        Cause::Unreachable {
            said: "connection refused".to_owned()
        }
    );
}

#[tokio::test]
async fn an_address_that_does_not_resolve_and_one_that_is_none() {
    let fake = FakeCluster::builder().start().await;
    let nowhere = json!({"server": "http://no-such-host.invalid:1"});
    let fault_of = async |cluster: Value| fault(fake.write_kubeconfig(cluster, json!({}))).await;
    assert!(matches!(
        cause(fault_of(nowhere).await),
        Cause::Unreachable { .. }
    ));
    for broken in [
        json!({"server": "http://a b"}),
        json!({"server": "https://x", "certificate-authority-data": "%"}),
    ] {
        let fault = fault_of(broken).await;
        assert!(
            matches!(fault, ConnectError::BrokenCluster { .. }),
            "{fault}"
        );
    }
}

#[tokio::test]
async fn a_server_that_never_answers() {
    let fake = FakeCluster::builder()
        .slow(Duration::from_secs(600))
        .start()
        .await;
    let deadline = Duration::from_millis(300);
    let options = Options {
        kubeconfig: Some(fake.kubeconfig()),
        deadline,
        ..Options::default()
    };
    let started = Instant::now();
    let Err(fault) = connect(&options, &Surroundings::default()).await else {
        panic!("connected")
    };
    assert_eq!(cause(fault), Cause::Deadline { after: deadline });
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn something_else_answers_at_the_address() {
    let page = "<html>Sign in</html>".into();
    let fake = FakeCluster::builder()
        .fault("/version", 1, 200, page)
        .start()
        .await;
    let fault = cause(fault(fake.kubeconfig()).await);
    assert!(matches!(fault, Cause::Unparsable { .. }), "{fault}");
}

#[tokio::test]
async fn tls_with_the_clusters_own_authority() {
    let fake = FakeCluster::builder()
        .tls(Identity::new(&["127.0.0.1"], false))
        .start()
        .await;
    with(fake.kubeconfig()).await.unwrap();
}

#[tokio::test]
async fn tls_faults_are_told_apart() {
    let strange = FakeCluster::builder()
        .tls(Identity::new(&["127.0.0.1"], false))
        .start()
        .await;
    let other = FakeCluster::builder()
        .tls(Identity::new(&["127.0.0.1"], false))
        .start()
        .await;
    let dir = TempDir::new().unwrap();
    let stolen = dir.path().join("ca.crt");
    let authority = Path::new(&other.kubeconfig()).with_file_name("ca.crt");
    std::fs::copy(authority, &stolen).unwrap();
    let config = strange.write_kubeconfig(
        json!({"server": strange.url, "certificate-authority": stolen}),
        json!({}),
    );
    assert_eq!(
        cause(fault(config).await),
        Cause::Tls(TlsFault::UnknownIssuer)
    );

    let expired = FakeCluster::builder()
        .tls(Identity::new(&["127.0.0.1"], true))
        .start()
        .await;
    assert_eq!(
        cause(fault(expired.kubeconfig()).await),
        Cause::Tls(TlsFault::NotValidNow)
    );

    let named = FakeCluster::builder()
        .tls(Identity::new(&["api.example.org"], false))
        .start()
        .await;
    assert_eq!(
        cause(fault(named.kubeconfig()).await),
        Cause::Tls(TlsFault::WrongName)
    );

    let plain = FakeCluster::builder().start().await;
    let url = plain.url.replace("http://", "https://");
    let cluster = json!({"server": url, "certificate-authority": stolen});
    assert_eq!(
        cause(fault(plain.write_kubeconfig(cluster, json!({}))).await),
        Cause::Tls(TlsFault::NotTls)
    );
}

#[tokio::test]
async fn a_credential_plugin_logs_in() {
    let (_dir, login) = plugin(&format!("#!/bin/sh\necho '{CREDENTIAL}'\n"));
    let fake = FakeCluster::builder().token("good").start().await;
    with(fake.kubeconfig_for(exec(&login))).await.unwrap();
}

#[tokio::test]
async fn a_credential_plugin_that_is_missing_gives_its_hint() {
    let fake = FakeCluster::builder().token("good").start().await;
    let mut user = exec("/no/such/plugin");
    let words = fault(fake.kubeconfig_for(user.clone())).await.to_string();
    assert!(
        words.contains("/no/such/plugin cannot be started"),
        "{words}"
    );
    assert!(
        words.ends_with("install it, or put it on PATH") && !words.contains("canary"),
        "{words}"
    );
    user["exec"]["installHint"] = "brew install plugin".into();
    let words = fault(fake.kubeconfig_for(user)).await.to_string();
    assert!(words.ends_with("brew install plugin"), "{words}");
}

#[tokio::test]
async fn a_credential_plugin_that_fails_is_quoted_without_its_arguments() {
    let fake = FakeCluster::builder().token("good").start().await;
    for (text, expected) in [
        (
            "#!/bin/sh\necho first >&2; echo 'session expired' >&2; exit 3\n",
            "exit status: 3: session expired",
        ),
        (
            "#!/bin/sh\necho nonsense: [\n",
            "its output is not an ExecCredential",
        ),
    ] {
        let (_dir, login) = plugin(text);
        let fault = fault(fake.kubeconfig_for(exec(&login))).await;
        let words = fault.to_string();
        assert!(
            matches!(fault, ConnectError::PluginFailed { .. }),
            "{words}"
        );
        assert!(
            words.contains(expected) && !words.contains("canary"),
            "{words}"
        );
    }
}

#[tokio::test]
async fn a_credential_plugin_that_hangs() {
    let (_dir, login) = plugin("#!/bin/sh\nexec sleep 12\n");
    let fake = FakeCluster::builder().token("good").start().await;
    let deadline = Duration::from_millis(300);
    let options = Options {
        kubeconfig: Some(fake.kubeconfig_for(exec(&login))),
        deadline,
        ..Options::default()
    };
    let started = Instant::now();
    let Err(fault) = connect(&options, &Surroundings::default()).await else {
        panic!("connected")
    };
    assert_eq!(
        fault,
        ConnectError::PluginHangs {
            command: login,
            after: deadline
        }
    );
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// Still there and not a zombie.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[tokio::test]
async fn a_credential_plugin_that_hangs_or_floods_is_ended_with_what_it_started() {
    let fake = FakeCluster::builder().token("good").start().await;
    for (then, words) in [
        ("wait", "gave no answer within"),
        ("yes", "printed more than 1 MiB"),
        ("yes >&2", "gave no answer within"),
    ] {
        let (dir, login) = plugin(&format!(
            "#!/bin/sh\nsleep 1000 & echo $! >\"$(dirname $0)/child\"; {then}\n"
        ));
        let options = Options {
            kubeconfig: Some(fake.kubeconfig_for(exec(&login))),
            deadline: Duration::from_secs(3),
            ..Options::default()
        };
        let started = Instant::now();
        let Err(fault) = connect(&options, &Surroundings::default()).await else {
            panic!("connected")
        };
        assert!(fault.to_string().contains(words), "{fault}");
        assert!(started.elapsed() < Duration::from_secs(20));
        let child = std::fs::read_to_string(dir.path().join("bin/child")).unwrap();
        while lives(child.trim()) {
            assert!(started.elapsed() < Duration::from_secs(30), "{then}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_token_that_expires_is_got_again() {
    let (dir, login) = plugin(
        r#"#!/bin/sh
echo x >>"$(dirname $0)/runs"
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
echo '"status":{"token":"good","expirationTimestamp":"2020-01-01T00:00:00Z"}}'
"#,
    );
    let fake = FakeCluster::builder().token("good").start().await;
    let cluster = with(fake.kubeconfig_for(exec(&login))).await.unwrap();
    cluster.client.apiserver_version().await.unwrap();
    let runs = dir.path().join("bin/runs");
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "x\nx\nx\n");
    // One that fails then says so, without its words of a token.
    std::fs::write(&login, "#!/bin/sh\necho token=canary >&2; exit 1\n").unwrap();
    let error = cluster.client.apiserver_version().await.unwrap_err();
    let cause = Cause::from(&error);
    assert!(matches!(cause, Cause::Credentials { .. }), "{cause}");
    let words = cause.to_string();
    assert!(
        words.contains("exit status: 1") && !words.contains("canary"),
        "{words}"
    );
}

#[tokio::test]
async fn a_certificate_from_a_credential_plugin_is_used() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["ann".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let credential = |certificate: String| {
        json!({"kind": "ExecCredential", "status": {
            "clientCertificateData": certificate, "clientKeyData": key.serialize_pem(),
        }})
    };
    let fake = FakeCluster::builder()
        .tls(Identity::new(&["127.0.0.1"], false))
        .start()
        .await;
    let connects = async |credential: Value| {
        let (_dir, login) = plugin(&format!("#!/bin/sh\ncat <<'E'\n{credential}\nE\n"));
        with(fake.kubeconfig_for(exec(&login))).await
    };
    connects(credential(certificate.pem())).await.unwrap();
    let Err(fault) = connects(credential("none".to_owned())).await else {
        panic!("connected")
    };
    assert!(matches!(fault, ConnectError::BrokenUser { .. }), "{fault}");
}

#[tokio::test]
async fn what_a_credential_plugin_says_of_a_token_is_not_shown() {
    let (_dir, login) = plugin("#!/bin/sh\necho 'login failed: token=canary' >&2; exit 1\n");
    let fake = FakeCluster::builder().token("good").start().await;
    let words = fault(fake.kubeconfig_for(exec(&login))).await.to_string();
    assert!(
        words.contains("exit status: 1") && !words.contains("canary"),
        "{words}"
    );
}

#[tokio::test]
async fn credentials_in_the_address_of_a_server_or_a_proxy_are_not_shown() {
    let fake = FakeCluster::builder().start().await;
    for cluster in [
        json!({"server": "http://admin:canary@127.0.0.1:1/k8s?access_token=canary"}),
        json!({"server": "http://127.0.0.1:1", "proxy-url": "http://ann:canary@127.0.0.1:1"}),
        json!({"server": "http://127.0.0.1:1", "proxy-url": "socks9://ann:canary@127.0.0.1:1"}),
        json!({"server": "http://127.0.0.1:1", "proxy-url": "http://ann:canary@a b"}),
    ] {
        let fault = fault(fake.write_kubeconfig(cluster, json!({}))).await;
        assert!(!fault.to_string().contains("canary"), "{fault}");
    }
}

#[tokio::test]
async fn files_that_a_kubeconfig_names_are_refused_where_reading_might_never_end() {
    let dir = TempDir::new().unwrap();
    let pipe = dir.path().join("pipe").display().to_string();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let large = dir.path().join("large").display().to_string();
    std::fs::write(&large, vec![b'x'; (1 << 20) + 1]).unwrap();
    let fake = FakeCluster::builder().start().await;
    let file = fake.kubeconfig();
    let file = file.to_str().unwrap();
    for (path, why) in [
        (pipe.as_str(), "it is no regular file"),
        ("/dev/zero", "it is no regular file"),
        (large.as_str(), "it is larger than 1 MiB"),
    ] {
        for (key, cluster, user) in [
            (
                "certificate-authority",
                json!({"certificate-authority": path}),
                json!({}),
            ),
            ("tokenFile", json!({}), json!({"tokenFile": path})),
            (
                "client-certificate",
                json!({}),
                json!({"client-certificate": path, "client-key": file}),
            ),
            (
                "client-key",
                json!({}),
                json!({"client-certificate": file, "client-key": path}),
            ),
        ] {
            let mut cluster = cluster;
            cluster["server"] = "https://127.0.0.1:1".into();
            let started = Instant::now();
            let words = fault(fake.write_kubeconfig(cluster, user))
                .await
                .to_string();
            assert!(words.contains(&format!("{key}: {path}: {why}")), "{words}");
            assert!(started.elapsed() < Duration::from_secs(10));
        }
    }
}

#[tokio::test]
async fn an_empty_namespace_is_the_default_one() {
    let fake = FakeCluster::builder().start().await;
    let path = fake.kubeconfig();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"llm\"", "\"\"")).unwrap();
    assert_eq!(with(path).await.unwrap().namespace, "default");
}

#[tokio::test]
async fn a_token_file_that_is_not_there_and_a_client_certificate_that_is_none() {
    let fake = FakeCluster::builder().start().await;
    let words = fault(fake.kubeconfig_for(json!({"tokenFile": "/no/such/token"})))
        .await
        .to_string();
    assert!(words.contains("token file /no/such/token"), "{words}");
    let user = json!({"client-certificate": "/no/such.crt", "client-key": "/no/such.key"});
    let fault = fault(fake.kubeconfig_for(user)).await;
    assert!(matches!(fault, ConnectError::BrokenUser { .. }), "{fault}");
    assert!(
        fault
            .to_string()
            .contains("client-certificate: /no/such.crt: entity not found"),
        "{fault}"
    );
}

#[tokio::test]
async fn neither_kubeconfig_nor_pod() {
    let home = TempDir::new().unwrap();
    let around = Surroundings {
        home: Some(home.path().to_owned()),
        ..Surroundings::default()
    };
    let Err(fault) = connect(&Options::default(), &around).await else {
        panic!("connected")
    };
    assert!(
        matches!(
            fault,
            ConnectError::Kubeconfig(KubeconfigFault::None { .. })
        ),
        "{fault}"
    );
    let in_pod = Surroundings {
        in_pod: true,
        ..around
    };
    let options = Options {
        context: Some("prod".to_owned()),
        ..Options::default()
    };
    let Err(fault) = connect(&options, &in_pod).await else {
        panic!("connected")
    };
    assert!(
        matches!(
            fault,
            ConnectError::Kubeconfig(KubeconfigFault::UnknownContext { .. })
        ),
        "{fault}"
    );
}

/// A redirect is named and not followed: what the request carries is for one server alone.
#[tokio::test]
async fn a_redirect_is_named_and_not_followed() {
    let other = FakeCluster::builder().start().await;
    let to = format!("{}/version?token=canary", other.url);
    let fake = FakeCluster::builder()
        .redirect("/version", &to)
        .start()
        .await;
    let fault = fault(fake.kubeconfig()).await.to_string();
    let words = format!(
        "the API server answered 301, a redirect to {}/version",
        other.url
    );
    assert!(
        fault.contains(&words) && !fault.contains("canary"),
        "{fault}"
    );
    assert_eq!(other.requests().len(), 0);
}

/// Runs in a process of its own, because CA bundle and proxy are found through the environment.
#[tokio::test]
#[ignore = "started by a_system_without_any_ca_bundle_and_a_proxy_for_others"]
async fn child_in_other_surroundings() {
    let fake = FakeCluster::builder().start().await;
    let https = json!({"server": "https://127.0.0.1:1"});
    let fault = fault(fake.write_kubeconfig(https, json!({}))).await;
    assert!(
        matches!(fault, ConnectError::NoCertificateAuthority { .. }),
        "{fault}"
    );
    // Where nothing is verified, nothing is needed; and this host is not reached through a proxy.
    with(fake.kubeconfig()).await.unwrap();
}

/// Runs in a process of its own, because the proxy is found through the environment.
#[tokio::test]
#[ignore = "started by a_proxy_of_the_environment_that_is_none"]
async fn child_with_a_broken_proxy() {
    let fake = FakeCluster::builder().start().await;
    let elsewhere = json!({"server": "https://192.0.2.1:1"});
    let fault = fault(fake.write_kubeconfig(elsewhere, json!({}))).await;
    let words = "HTTPS_PROXY in the environment is not the address of a proxy";
    assert!(fault.to_string().starts_with(words), "{fault}");
    // A server of this machine is never reached through a proxy: so do kubectl and all of Go.
    with(fake.kubeconfig()).await.unwrap();
}

#[test]
fn a_proxy_of_the_environment_that_is_none() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "connect::child_with_a_broken_proxy", "--ignored"])
        .env("HTTPS_PROXY", "::bad")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && stdout.contains("1 passed"),
        "{stdout}"
    );
}

#[test]
fn a_system_without_any_ca_bundle_and_a_proxy_for_others() {
    let empty = TempDir::new().unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "connect::child_in_other_surroundings",
            "--ignored",
        ])
        .env("SSL_CERT_FILE", empty.path().join("none"))
        .env("SSL_CERT_DIR", empty.path())
        .env("HTTPS_PROXY", "http://127.0.0.1:1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && stdout.contains("1 passed"),
        "{stdout}"
    );
}
