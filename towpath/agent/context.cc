#include <utility>

#include <towpath/agent/context.h>
#include <towpath/core/text.h>

namespace towpath::agent {

AgentContext::AgentContext(const AgentOptions& given, AgentIdentity identity)
    : options(given), self(std::move(identity)), clock(*given.clock) {
  log = telemetry::Log(sink(), clock, cat("agent ", printable(self.name)));
}

Status AgentContext::check_open() const {
  return is_closed() ? error(Code::not_ready, "the agent was shut down") : Status();
}

}  // namespace towpath::agent
