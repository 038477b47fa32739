export { webhookDeclarations } from './declarations.ts'
export { deliveryQueue } from './delivery-queue.ts'
