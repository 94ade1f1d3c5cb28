// PrometheusEndpoint: metrics over HTTP, as Prometheus scrapes them: http://HOST:PORT/metrics.
//
// Over prometheus-cpp, where the build found it; elsewhere open() says how to get it. It listens to
// this machine only, unless set otherwise: it knows no password.
// Names are ours with `_nanoseconds` reported as `_seconds`, and those that NIXL's users have on
// their dashboards (nixl_metrics.h). Thread: any. It has threads of its own, which only read
// snapshots.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::standard {

struct PrometheusOptions {
  std::string address = "127.0.0.1";  ///< of an interface; IPv6 in brackets; "0.0.0.0" is all
  std::uint16_t port = 9090;          ///< 0: the kernel chooses one
  bool nixl_names = true;
  /// Shell patterns of names, with or without their "_total": what is served. Empty: all.
  std::vector<std::string> enabled = {};
};

class PrometheusEndpoint {
 public:
  /// `metrics` must outlive it. Errors: unsupported (built without prometheus-cpp),
  /// invalid_argument (no address), unavailable (the port is taken, or the address is none of this
  /// machine).
  static Result<std::unique_ptr<PrometheusEndpoint>> open(const telemetry::Metrics& metrics,
                                                          const PrometheusOptions& options);
  virtual ~PrometheusEndpoint() = default;

  virtual std::uint16_t port() const = 0;
  /// "http://127.0.0.1:9090/metrics".
  virtual std::string url() const = 0;
};

}  // namespace towpath::standard
