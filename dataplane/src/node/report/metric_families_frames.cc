// The memory that all connections share for large requests and answers.
#include "node/report/metric_series.h"

namespace peercache {

MetricSection FrameMetrics() {
  return {
      "Memory of connections",
      "Requests and answers above 32 KiB, of peers and engines alike, share one budget.",
      {
          {"peercache_frame_memory_bytes",
           kGauge,
           "Memory held by large requests and answers that are under way.",
           {},
           {Of([](const Scrape& s) { return s.frames.held; })}},
          {"peercache_frame_memory_limit_bytes",
           kGauge,
           "The budget. Answers that wait for their peers may exceed it; no request is taken up "
           "then.",
           {},
           {Of([](const Scrape& s) { return s.frames.limit; })}},
          {"peercache_frame_memory_most_bytes",
           kGauge,
           "The most that was held at once since the node started.",
           {},
           {Of([](const Scrape& s) { return s.frames.most; })}},
          {"peercache_frame_memory_waiting",
           kGauge,
           "Requests and answers that wait for memory.",
           {},
           {Of([](const Scrape& s) { return s.frames.waiting; })}},
          {"peercache_frame_memory_waited_total",
           kCounter,
           "Requests and answers that did not get their memory at once.",
           {},
           {Of([](const Scrape& s) { return s.frames.waited; })},
           "Do many large requests come at once?",
           "rate(peercache_frame_memory_waited_total[5m]) > 0"},
          {"peercache_frame_memory_cut_off_total",
           kCounter,
           "Connections closed because they held such memory for half a second without coming to "
           "the end of their frame, while others waited.",
           {},
           {Of([](const Scrape& s) { return s.frames.cut_off; })},
           "Does a client announce large requests and not send them?",
           "rate(peercache_frame_memory_cut_off_total[5m]) > 0"},
      }};
}

}  // namespace peercache
