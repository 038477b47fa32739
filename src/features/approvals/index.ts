export { proposalsAfter } from './approval-service.ts'
