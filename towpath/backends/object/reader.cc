#include <towpath/backends/object/reader.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {

void Reader::start(const Plan& plan) {
  const BackendOptions& options = asks_.client().options();
  plan_ = &plan;
  // What is put in one request has a checksum of all of it, and is fetched in one.
  plan.fetches({.part_bytes = options.part_bytes,
                .gap_bytes = options.gap_bytes,
                .whole_bytes = options.check_checksum ? options.multipart_bytes : 0},
               fetches_);
  next_ = 0;
  versions_.assign(plan.shares().size(), {});
}

bool Reader::issue() {
  if (next_ == fetches_.size()) return false;
  const Fetch& fetch = fetches_[next_++];
  const Place place = under_way_.emplace(under_way_.end(), fetch, versions_[fetch.share]);
  const ObjectRecord& record = plan_->shares()[fetch.share].object->record();
  if (asks_.client().options().check_checksum && fetch.begin == 0 &&
      fetch.end == record.region.length)
    place->read_whole(true);
  ask(place);
  return true;
}

void Reader::ask(Place place) {
  const auto headers = [place] {
    std::vector<NameValue> made;
    if (place->reads_whole())
      made.emplace_back("x-amz-checksum-mode", "ENABLED");
    else
      made.emplace_back("range", place->range());
    return made;
  };
  const ObjectName& name = plan_->shares()[place->fetch().share].object->name();
  asks_.ask(
      {.method = "GET",
       .name = name,
       .headers = headers(),
       .sink = &*place,
       .renew =
           [place, headers](Ask& what) {
             place->renew();
             what.headers = headers();
           }},
      [this, place](const Result<net::HttpResponse>& response) { answered(place, response); });
}

void Reader::answered(Place place, const Result<net::HttpResponse>& response) {
  if (response.code() == Code::unsupported && place->reads_whole()) {  // it is longer than that
    place->read_whole(false);
    return ask(place);
  }
  const Status outcome = response.ok() ? place->finish() : response.status();
  if (!outcome.ok())
    place->fail(progress_,
                error(outcome.code(), cat(describe(place->fetch()), ": ", outcome.message()),
                      std::string(outcome.hint()))
                    .because(outcome.cause()));
  settle(place);
}

void Reader::settle(Place place) {
  progress_.moved(place->bytes());
  counters_.moved(TransferOp::read).add(place->bytes());
  counters_.gap_bytes.add(place->wasted());
  under_way_.erase(place);
}

void Reader::stop() {
  while (!under_way_.empty()) settle(under_way_.begin());
}

std::string Reader::describe(const Fetch& fetch) const {
  return cat("bytes ", fetch.begin, " to ", fetch.end, " of ",
             to_string(plan_->shares()[fetch.share].object->name()));
}

}  // namespace towpath::backends::object
