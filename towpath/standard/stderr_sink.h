// StderrSink: what a library that nobody gave a sink has to say goes to standard error.
// Thread: any.
#pragma once

#include <towpath/telemetry/log.h>

namespace towpath::standard {

/// Prints events of at least `level`, a line each.
class StderrSink final : public telemetry::EventSink {
 public:
  /// From the level on that TOWPATH_LOG_LEVEL or NIXL_LOG_LEVEL names; else from warnings on.
  StderrSink();
  explicit StderrSink(telemetry::Level level) noexcept : level_(level) {}
  void emit(const telemetry::Event& event) noexcept override;
  bool wants(telemetry::Level level) const noexcept override { return level >= level_; }

 private:
  const telemetry::Level level_;
};

}  // namespace towpath::standard
