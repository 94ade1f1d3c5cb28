// PmixExchange: the exchange of a job that mpirun, srun or another launcher with PMIx started.
//
// The client library is opened at run time. It is let go of at the end, so that the launcher sees
// an orderly process whatever the program does later; a program that uses MPI too counts for
// itself.
// Thread: one at a time.
#pragma once

#include <memory>

#include <towpath/shmem/exchange.h>

namespace towpath::shmem {

class PmixExchange final : public Exchange {
  struct Private {};

 public:
  /// Connects to the launcher. Errors: unsupported (the library is not here, or has not all that is
  /// needed), unavailable (no launcher answers).
  static Result<std::unique_ptr<PmixExchange>> open();
  explicit PmixExchange(Private);
  ~PmixExchange() override;

  int my_pe() const noexcept;
  int pes() const noexcept;
  /// May be called again. Errors: unavailable, with PMIx's words.
  Result<std::vector<Bytes>> all(ConstByteSpan mine) override;

 private:
  struct Client;
  std::unique_ptr<Client> client_;
};

}  // namespace towpath::shmem
