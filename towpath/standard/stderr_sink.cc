#include <cstdio>

#include <towpath/standard/stderr_sink.h>

namespace towpath::standard {

StderrSink::StderrSink() : StderrSink(Settings::from(read_environment())) {}

void StderrSink::emit(const telemetry::Event& event) noexcept {
  const std::string line = telemetry::to_string(event) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace towpath::standard
