import { lockKeys } from '../platform/postgres/locks.ts'
import { worker } from '../platform/work/worker.ts'

const gateway = { process: 'gateway', per: 'process' } as const

export const followExits = worker({
  ...gateway,
  name: 'exits',
  about: 'Follows the exits and the health reports of other gateways',
  // Released sessions and dead exits are known to every gateway within this time.
  trigger: { everyMs: 500, quietMs: 5_000 },
})

export const exitProbes = worker({
  ...gateway,
  name: 'exit-probes',
  about: 'Probes which exits work',
  trigger: { everyMs: 2_000, quietMs: 20_000 },
  per: 'cluster',
  lock: lockKeys.probing,
  session: 'farebox-exit-probes',
})

export const machineExitProbes = worker({
  ...gateway,
  name: 'machine-exit-probes',
  about: 'Probes which exits on its own machine work',
  trigger: { everyMs: 2_000, quietMs: 20_000 },
})

export const refreshAccess = worker({
  ...gateway,
  name: 'gateway-access',
  about: 'Follows the plans and rentals of open tunnels and writes statistics',
  trigger: { everyMs: 500 },
})

export const countTraffic = worker({
  ...gateway,
  name: 'traffic-leases',
  about: 'Counts the traffic of plans and leases more of it',
  trigger: { everyMs: 500, while: 'tunnels are open', or: 'a tunnel needs traffic' },
})

export const recordRequests = worker({
  ...gateway,
  name: 'traffic-records',
  about: 'Writes the records of finished connections and requests',
  trigger: { everyMs: 1_000 },
})

export const rentalListeners = worker({
  ...gateway,
  name: 'rental-listeners',
  about: 'Listens on the rented addresses of its machine',
  // A renter may connect as soon as the order is answered.
  trigger: { everyMs: 100, quietMs: 10_000 },
})

/** The background work of a gateway process. */
export const gatewayWorkers = [
  followExits,
  exitProbes,
  machineExitProbes,
  refreshAccess,
  countTraffic,
  recordRequests,
  rentalListeners,
] as const
