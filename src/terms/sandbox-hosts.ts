/** The sandbox's own host: over plain HTTP it answers from which address it was asked. */
export const whoamiHost = 'whoami.sandbox'

/** The supplier of the demo's addresses that no machine has: a proxy of the sandbox, on another port with each start. */
export const addressesHost = 'addresses.sandbox'
