// How a call's work is divided between its threads: by batch rows or by columns.
//
// By rows, every thread takes its batch entries through the whole sequence by itself: no barrier, no
// value that another core has just written, and a core that is busy with something else delays only
// its own rows. But every thread then reads all the weights in every step. By columns, it reads its
// share of them, which may stay in its own cache where all of them do not, and meets the others three
// times a step.
//
// The sums of one row do not depend on which other rows a product takes along, so that both ways and
// any number of threads give the same bits.
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

// Fewer rows than this a thread leave the arithmetic waiting for weights, unless these are so few
// (in bytes) that they stay close by.
constexpr int64_t fewest_rows_a_thread = 4;
constexpr int64_t few_weights = 256 << 10;
// More weights than this, in bytes, come from far away once every thread reads all of them, which is
// little only beside the arithmetic of many rows.
constexpr int64_t most_weights = 3 << 19;
constexpr int64_t many_rows_a_thread = 2 * UNBOUNDED_MAX_ROWS;

template <class T>
int64_t weight_bytes(const Frame<T>& f) {
  return int64_t(sizeof(T)) *
         (f.inner() * (f.c.reading + f.c.hidden) + f.head_rows * f.c.hidden);
}

enum class Division { automatic, rows, columns };

// The rule: by rows where each thread gets enough of them and all weights leave room in a
// second-level cache, or rows are many. It sees sizes and threads only.
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

// What one thread does of a step: its columns of `products`' batch entries, and the memory of
// `entries`.
struct Portion {
  int64_t place, sharing;  // between how many threads the columns are divided
  Share products, entries;
  Share of(int64_t columns) const { return share_of(columns, place, sharing); }
};
template <class T>
Portion portion_of(const Frame<T>& f, int64_t thread, int64_t threads, bool rows) {
  const Share entries = share_of(f.c.batch, thread, threads);
  if (rows) return {0, 1, entries, entries};
  return {thread, threads, {0, f.c.batch}, entries};
}

// What follows a phase: where columns are divided, the threads meet. If one is left (threads.h), it
// takes the portions of all. Returns whether this thread has more to do.
inline bool meet(Team& team, int64_t thread, Portion& portion, int64_t batch) {
  if (portion.sharing == 1) return true;
  team.wait();
  if (team.threads() == 1) portion = {0, 1, {0, batch}, {0, batch}};
  return team.keeps(thread);
}

// Few weights stay in the nearest cache whatever else passes through it: then the batch entries of
// a thread go through the sequence a block of rows after the other, so that what a memory keeps of
// them stays near as well.
template <class T, class Body>
void for_passes(const Frame<T>& f, bool rows, Share entries, Body body) {
  if (!rows || weight_bytes(f) > few_weights) return body(entries);
  for_row_blocks(entries.begin, entries.count(),
                 [&](int64_t begin, int count) { body(Share{begin, begin + count}); });
}

// What is left of some entries at a step once the last ones are over: of a batch in the order of its
// lengths, the longest first, the entries that take the step, and of any other batch some more.
template <class T>
Share going_on(const Frame<T>& f, int64_t t, Share entries) {
  while (entries.count() > 0 && f.length_of(entries.end - 1) <= t) --entries.end;
  return entries;
}

// Every second step goes backwards: what was used last is still in the cache, where going always
// forwards over a little more than fits would miss every time.
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
