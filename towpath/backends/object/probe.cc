#include <towpath/backends/object/probe.h>
#include <towpath/backends/object/store.h>
#include <towpath/core/format.h>
#include <towpath/sys/clock.h>

namespace towpath::backends::object {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(5);

Finding about_credentials(const BackendOptions& options) {
  Finding finding{.question = "Who are we to the object store?",
                  .signal = "access_key",
                  .source = "parameters, AWS_* variables, ~/.aws/credentials"};
  const Credentials& who = options.credentials;
  if (who.access_key.empty()) {
    finding.verdict = Verdict::degraded;
    finding.reason = "no credentials: only what is public can be read";
    finding.hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials";
    return finding;
  }
  finding.verdict = Verdict::yes;
  finding.reason =
      cat("access key ", printable(who.access_key), ", secret key ", to_string(who.secret_key),
          who.session_token.empty() ? "" : ", with a session token");
  return finding;
}

Finding about_store(const BackendOptions& options) {
  Finding finding{.question = "Does the object store answer?",
                  .signal = cat("HEAD of bucket '", printable(options.bucket), "'"),
                  .source = options.store.to_string()};
  if (options.bucket.empty()) {
    finding.reason = "no bucket is named, so nobody was asked";
    finding.hint = "set AWS_DEFAULT_BUCKET, or the parameter bucket";
    return finding;
  }
  BackendOptions patient = options;
  patient.timeout = kTimeout;
  patient.retry.max_attempts = 1;
  const sys::SystemClock clock;
  auto store = Store::open(patient, clock);
  const auto answer = store.ok() ? (*store)->call({.method = "HEAD", .name = {options.bucket, {}}})
                                 : Result<net::HttpResponse>(store.status());
  finding.verdict = answer.ok() ? Verdict::yes : Verdict::no;
  finding.reason = answer.ok() ? cat("region ", options.region)
                               : cat(name_of(answer.code()), ": ", answer.status().message());
  finding.hint = answer.status().hint();
  return finding;
}

}  // namespace

std::vector<Finding> probe_store(const Result<BackendOptions>& options) {
  if (options.ok()) return {about_credentials(*options), about_store(*options)};
  return {{.question = "Can objects be moved?",
           .signal = "reading the parameters",
           .source = "parameters, AWS_* variables, ~/.aws/credentials",
           .verdict = Verdict::no,
           .reason = std::string(options.status().message()),
           .hint = std::string(options.status().hint())}};
}

}  // namespace towpath::backends::object
