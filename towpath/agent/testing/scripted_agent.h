// An agent over a scripted backend and no other, for tests.
#pragma once

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/agent/agent.h>
#include <towpath/agent/testing/scripted_backend.h>

namespace towpath::agent {

/// Used as a pointer to the agent. The script and the clock outlive it.
class ScriptedAgent {
 public:
  ScriptedAgent(Script& script, AgentOptions options) {
    EXPECT_TRUE(registry_.add(scripted_type("scripted", script)).ok());
    options.registry = &registry_;
    agent_ = *Agent::create(std::move(options));
    EXPECT_TRUE(agent_->add_backend("scripted").ok());
  }
  Agent& operator*() const { return *agent_; }
  Agent* operator->() const { return agent_.get(); }

 private:
  backend::Registry registry_;
  std::unique_ptr<Agent> agent_;
};

}  // namespace towpath::agent
