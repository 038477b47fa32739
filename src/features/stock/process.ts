export { createStockLogins, placeOfEndpoint } from './stock-logins.ts'
