// StderrSink: what a library that nobody gave a sink has to say goes to standard error.
// Thread: any.
#pragma once

#include <towpath/standard/settings.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {

/// Prints events of at least `level`, a line each.
class StderrSink final : public telemetry::EventSink {
 public:
  /// From the level on that TOWPATH_LOG_LEVEL or NIXL_LOG_LEVEL names; else from warnings on.
  StderrSink();
  /// The same of settings that were read already, from a configuration file too.
  explicit StderrSink(const Settings& settings) noexcept
      : StderrSink(settings.log_level.value_or(telemetry::Level::warning)) {}
  explicit StderrSink(telemetry::Level level) noexcept : level_(level) {}
  void emit(const telemetry::Event& event) noexcept override;
  bool wants(telemetry::Level level) const noexcept override { return level >= level_; }

 private:
  const telemetry::Level level_;
};

}  // namespace towpath::standard
