// In place of prometheus.cc where the build found no prometheus-cpp.
#include <towpath/standard/telemetry.h>

namespace towpath::standard {

Result<std::unique_ptr<PrometheusEndpoint>> PrometheusEndpoint::open(const telemetry::Metrics&,
                                                                     const PrometheusOptions&) {
  return error(Code::unsupported, "this build has no Prometheus endpoint",
               "install prometheus-cpp (Debian: prometheus-cpp-dev) and build again");
}

}  // namespace towpath::standard
