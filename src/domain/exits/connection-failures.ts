/**
 * The reasons of failed connections, as in `X-Proxy-Error`, and what the owner of the plan can do. A refusal uses only
 * these reasons.
 */
const remedies = {
  account_blocked: 'The account is blocked: ask its owner.',
  bad_request: 'The client sent something that is not HTTP or SOCKS5: check its proxy settings.',
  bad_response: 'The target answered with something that is not HTTP: check its port and scheme.',
  bad_target: 'The host of the request is invalid: check its spelling.',
  bad_targeting: 'The username names a place that there is not: choose from the geo lists.',
  client_reset: 'The client broke the connection off.',
  credential_rotated: 'The password was changed: generate the lines again.',
  credentials_required:
    "No credentials came: send those of a line, or put the address on the plan's whitelist.",
  dns_timeout: 'The name of the target was not resolved in time: try again.',
  exit_failed: 'The exit did not answer: try again, which takes another one.',
  exits_full: 'All matching exits are busy: try again shortly, or widen the targeting.',
  gateway_full: 'The gateway was full: try again with a growing pause.',
  gateway_unavailable: 'The gateway could not work: try again with a growing pause.',
  head_timeout: 'The client did not finish its request in time: send it in one go.',
  head_too_large: 'The head of the request is too large: send fewer or shorter headers.',
  host_not_found: 'The name of the target does not exist: check its spelling.',
  idle_timeout: 'Nothing passed for too long: keep the connection busy, or open it again.',
  no_common_method: 'The SOCKS5 client offers no way to sign in: set the username and the password.',
  no_exit: 'No live exit matches: widen the targeting, or generate lines with strict false.',
  plan_ended: 'The time of the plan is over: order it again.',
  rental_ended: 'The rental of the address is over: rent it again.',
  session_failed: 'The exit of the session fails: take a new session id, or release the session.',
  session_limit_reached: 'The cap of the session is spent: take a new session id.',
  target_blocked: 'The target is not allowed: private addresses and mail ports are blocked.',
  target_closed: 'The target closed the connection: try again.',
  target_refused: 'The target refused the connection: check its host and port.',
  target_reset: 'The target broke the connection off: try again.',
  target_timeout: 'The target did not answer in time: try again, or check that it is up.',
  target_unreachable: 'The target cannot be reached: check its name and port.',
  targeting_refused: 'The username has targeting that is not accepted: choose from the geo lists.',
  too_many_connections: 'The plan had too many connections open: close some, or spread them.',
  traffic_budget_reached: 'A traffic budget is used up: raise it, reset it, or wait for its next period.',
  traffic_exhausted: 'The traffic is used up: top the plan up.',
  udp_not_allowed: 'The line was generated without udp: generate it with udp true.',
  udp_failed: 'The gateway could not pass UDP on: open the association again.',
  version_not_supported: 'The client speaks another version of HTTP: use 1.1.',
  wrong_credentials: 'The username or the password is wrong: generate the line again.',
} as const

export type Failure = keyof typeof remedies

export const remedyOf = (failure: string): string =>
  (remedies as Readonly<Record<string, string>>)[failure] ?? 'Try again with a growing pause.'
