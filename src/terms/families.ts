export const families = ['residential', 'isp', 'mobile', 'ipv4', 'ipv6'] as const
export type Family = (typeof families)[number]
export const shapes = ['gateway_gb', 'gateway_time', 'addresses', 'addresses_mobile'] as const
export type Shape = (typeof shapes)[number]
export const deliveries = ['lines', 'addresses'] as const
export type Delivery = (typeof deliveries)[number]
export const renewals = ['topup', 'repurchase', 'extend'] as const
export type Renewal = (typeof renewals)[number]
