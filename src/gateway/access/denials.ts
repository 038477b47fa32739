import type { Denied } from '../proxy/ports.ts'

/** One answer for every wrong credential: it tells nothing of which plans there are. */
export const wrongCredentials: Denied = {
  denied: true,
  status: 407,
  error: 'wrong_credentials',
  detail:
    'The username or the password is wrong, or the line belongs to another plan. Generate the line again.',
}

export const noCredentials: Denied = {
  denied: true,
  status: 407,
  error: 'credentials_required',
  detail:
    'Send the username and the password of a generated line, or connect from an address on the whitelist of a plan.',
}

export const accountBlocked: Denied = {
  denied: true,
  status: 407,
  error: 'account_blocked',
  detail: 'The account of this line is blocked. Ask its owner.',
}

export const planEnded: Denied = {
  denied: true,
  status: 407,
  error: 'plan_ended',
  detail: 'The time of this plan is over. Order it again, and generate new lines.',
}

export const rentalEnded: Denied = {
  denied: true,
  status: 407,
  error: 'rental_ended',
  detail: 'The rental of this address is over.',
}

export const credentialRotated: Denied = {
  denied: true,
  status: 407,
  error: 'credential_rotated',
  detail: 'The password of this plan was changed. Generate the lines again.',
}

export const tokenRefused = (token: string, detail: string): Denied => ({
  denied: true,
  status: 403,
  error: 'targeting_refused',
  detail: `${token}: ${detail}`,
})

export const tooManyConnections = (limit: number): Denied => ({
  denied: true,
  status: 503,
  error: 'too_many_connections',
  detail: `This plan has ${limit} connections open here, which is the limit. Close some, or try again.`,
  retryAfterSeconds: 1,
})

export const sessionLimitReached: Denied = {
  denied: true,
  status: 467,
  error: 'session_limit_reached',
  detail: 'The traffic cap of this session (its -limit- token) is spent. Take a new session id.',
}
