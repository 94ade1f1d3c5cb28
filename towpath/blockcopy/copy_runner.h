// CopyRunner: the copies of a manager that are under way, and what they share: the bounce pool, a
// stream for each device, credits, and what was measured of their ways.
//
// It decides by which way a copy goes and cuts it into chunks; jobs start these in turn, so that a
// large copy does not hold up a small one. It knows sides and plans, and no handle and no peer.
// Destroying it cancels what is under way and waits until it is quiesced.
// Thread: loop.
#pragma once

#include <memory>
#include <vector>

#include <towpath/blockcopy/copy_job.h>
#include <towpath/blockcopy/transfer_manager.h>

namespace towpath::blockcopy {

/// A layout that a copy begins or ends at. All of it outlives the call.
struct CopyEnd {
  const layout::Layout& geometry;
  const LayoutOptions& options;
  const layout::PhysicalLayout* local;  ///< null: a peer's
};

class CopyRunner {
 public:
  /// Errors: as TransferManager::create().
  static Result<std::unique_ptr<CopyRunner>> create(TransferManagerOptions options);
  ~CopyRunner();
  CopyRunner(const CopyRunner&) = delete;
  CopyRunner& operator=(const CopyRunner&) = delete;

  const TransferManagerOptions& options() const noexcept { return options_; }

  /// Errors: as TransferManager::copy().
  Result<std::shared_ptr<CopyJob>> copy(const CopyEnd& from, const CopyEnd& to,
                                        CopyRequest request);
  bool progress();
  void wait_for_work(Duration timeout);
  TransferFigures figures() const;

 private:
  /// A trial where kernel and copy engines are both possible.
  struct Way {
    Route route;
    std::optional<CopyTrial> trial{};
  };

  CopyRunner(TransferManagerOptions options, BouncePool pool);

  Result<Way> way_of(const CopySide& source, const CopySide& target, const layout::BoxPlan& plan);
  Result<RouteFacts> facts_of(const CopySide& source, const CopySide& target,
                              const layout::BoxPlan& plan);
  /// Whether the kernel of `device`, if it is one, may move the plan's pieces between it and
  /// `other`; null: a bounce buffer.
  bool kernel_reaches(const CopySide& device, const CopySide* other,
                      const layout::BoxPlan& plan) const;
  bool is_direct(TransferOp op, const CopySide& local, const CopySide& remote);
  bool start_chunks();
  void note_time(const CopyJob& job);
  HopTools tools() { return {*options_.agent, streams_}; }

  const TransferManagerOptions options_;
  BouncePool pool_;
  DeviceStreams streams_;
  CopyTimes times_;
  std::vector<std::shared_ptr<CopyJob>> jobs_;
  std::size_t next_job_ = 0;  // that starts a chunk
  std::size_t under_way_ = 0;
  std::size_t most_under_way_ = 0;
};

}  // namespace towpath::blockcopy
