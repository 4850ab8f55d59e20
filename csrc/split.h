// Division of a call's work between threads: by batch rows or by columns.
//
// By rows, each thread takes its batch entries through the whole sequence. There is no barrier and
// no value that another core has just written, and a busy core delays only its own rows. But each
// thread reads all weights in every step. By columns, it reads only its share, which may stay in
// its cache where all weights do not; it meets the others three times a step.
//
// The sums of a row do not depend on the other rows of a product, so both divisions and any number
// of threads give the same bits.
#pragma once

#include "frame.h"
#include "threads.h"

namespace unbounded {

struct Share {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};
inline Share share_of(int64_t count, int64_t thread, int64_t threads) {
  return {count * thread / threads, count * (thread + 1) / threads};
}

// With fewer rows per thread the arithmetic waits for weights, unless the weights are so few (in
// bytes) that they stay in a near cache.
constexpr int64_t fewest_rows_a_thread = 4;
constexpr int64_t few_weights = 256 << 10;
// More weights than this, in bytes, come from a far cache if every thread reads all of them; that
// is negligible only against the arithmetic of many rows.
constexpr int64_t most_weights = 3 << 19;
constexpr int64_t many_rows_a_thread = 2 * UNBOUNDED_MAX_ROWS;

template <class T>
int64_t weight_bytes(const Frame<T>& f) {
  return int64_t(sizeof(T)) *
         (f.inner() * (f.c.read_vector + f.c.hidden) + f.head_rows * f.c.hidden);
}

enum class Division { automatic, rows, columns };

// The rule: by rows if each thread gets enough of them and all weights leave room in a second-level
// cache, or if rows are many. It depends only on sizes and threads.
template <class T>
bool by_rows(const Frame<T>& f, int64_t threads) {
  if (threads <= 1) return true;
  const auto asked = Division(f.c.switches.division);
  if (asked != Division::automatic) return asked == Division::rows;
  const int64_t weights = weight_bytes(f);
  const int64_t fewest = weights <= few_weights ? 1 : fewest_rows_a_thread;
  const bool near = weights <= most_weights || f.c.batch >= many_rows_a_thread * threads;
  return f.c.batch >= fewest * threads && near;
}

// One thread's part of a step: its columns for the batch entries of `products`, and the memory of
// `entries`.
struct Portion {
  int64_t place, sharing;  // number of threads that share the columns
  Share products, entries;
  Share of(int64_t columns) const { return share_of(columns, place, sharing); }
};
template <class T>
Portion portion_of(const Frame<T>& f, int64_t thread, int64_t threads, bool rows) {
  const Share entries = share_of(f.c.batch, thread, threads);
  if (rows) return {0, 1, entries, entries};
  return {thread, threads, {0, f.c.batch}, entries};
}

// The end of a phase: with divided columns the threads meet. If one is left (threads.h), it takes
// all portions. Returns whether this thread has more to do.
inline bool meet(Team& team, int64_t thread, Portion& portion, int64_t batch) {
  if (portion.sharing == 1) return true;
  team.wait();
  if (team.threads() == 1) portion = {0, 1, {0, batch}, {0, batch}};
  return team.keeps(thread);
}

// Few weights stay in the nearest cache whatever else passes through it. Then a thread takes its
// batch entries through the sequence in blocks of at most `most` rows, so that the memory's data
// stay in a near cache as well.
template <class T, class Body>
void for_passes(const Frame<T>& f, bool rows, Share entries, int64_t most, Body body) {
  if (!rows || weight_bytes(f) > few_weights) return body(entries);
  for_row_blocks(entries.begin, entries.count(),
                 [&](int64_t begin, int count) { body(Share{begin, begin + count}); }, most);
}

// The remaining entries at a step. In a batch sorted by length, longest first, these are the
// entries that take the step; in any other batch there are some more.
template <class T>
Share going_on(const Frame<T>& f, int64_t t, Share entries) {
  while (entries.count() > 0 && f.length_of(entries.end - 1) <= t) --entries.end;
  return entries;
}

// Every second step goes backwards: the last used data are still in the cache, whereas going always
// forwards over slightly too much data would miss every time.
inline int64_t first_in_zigzag(Share share, int64_t step) {
  return step % 2 == 0 ? share.begin : share.end - 1;
}
inline int64_t after_in_zigzag(int64_t i, Share share, int64_t step) {
  return step % 2 == 0 ? std::min(i + 1, share.end - 1) : std::max(i - 1, share.begin);
}
template <class Body>
inline void zigzag(Share share, int64_t step, Body body) {
  if (step % 2 == 0)
    for (int64_t i = share.begin; i < share.end; ++i) body(i);
  else
    for (int64_t i = share.end - 1; i >= share.begin; --i) body(i);
}

}  // namespace unbounded
