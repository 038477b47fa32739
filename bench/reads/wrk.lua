-- Sends the requests of a file in turn: one `key path` a line, the file named by READS_REQUESTS.
local requests = {}
local at = 0

function init()
  for line in io.lines(os.getenv("READS_REQUESTS")) do
    local key, path = line:match("^(%S+) (%S+)$")
    requests[#requests + 1] = wrk.format("GET", path, { ["X-API-Key"] = key })
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  io.write(string.format(
    '{"requests":%d,"micros":%d,"failed":%d,"bytes":%d,"p50Micros":%d,"p99Micros":%d}\n',
    summary.requests, summary.duration,
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    summary.bytes, latency:percentile(50), latency:percentile(99)))
end
