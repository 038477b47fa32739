/** What the owner of a plan can do about a failure, by its word (`X-Proxy-Error`). */
const remedies: Readonly<Record<string, string>> = {
  account_blocked: 'The account is blocked: ask its owner.',
  bad_response: 'The target answered with something that is not HTTP: check its port and scheme.',
  client_reset: 'The client broke the connection off.',
  credential_rotated: 'The password was changed: generate the lines again.',
  dns_timeout: 'The name of the target was not resolved in time: try again.',
  exit_failed: 'The exit did not answer: try again, which takes another one.',
  exits_full: 'All matching exits are busy: try again shortly, or widen the targeting.',
  gateway_full: 'The gateway was full: try again with a growing pause.',
  gateway_unavailable: 'The gateway could not work: try again with a growing pause.',
  host_not_found: 'The name of the target does not exist: check its spelling.',
  no_exit: 'No live exit matches: widen the targeting, or generate lines with strict false.',
  plan_ended: 'The time of the plan is over: order it again.',
  session_exit_failed: 'The exit of the session fails: take a new session id, or release the session.',
  session_limit_reached: 'The cap of the session is spent: take a new session id.',
  target_blocked: 'The target is not allowed: private addresses and mail ports are blocked.',
  target_closed: 'The target closed the connection: try again.',
  target_refused: 'The target refused the connection: check its host and port.',
  target_timeout: 'The target did not answer in time: try again, or check that it is up.',
  target_unreachable: 'The target cannot be reached: check its name and port.',
  targeting_refused: 'The username asks for what is not accepted: choose from the geo lists.',
  too_many_connections: 'The plan had too many connections open: close some, or spread them.',
  traffic_exhausted: 'The traffic is used up: top the plan up.',
  udp_not_allowed: 'The line was generated without udp: generate it with udp true.',
}

export const remedyOf = (error: string): string => remedies[error] ?? 'Try again with a growing pause.'
