FROM node:24-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev

FROM node:24-slim
ENV NODE_ENV=production HOST=0.0.0.0 FAREBOX_DATA=/data
WORKDIR /app
RUN mkdir /data && chown node:node /data
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json ./
COPY bin ./bin
COPY docs ./docs
COPY projections ./projections
COPY src ./src
COPY tools ./tools
USER node
VOLUME /data
EXPOSE 3000
HEALTHCHECK --interval=10s --start-period=10m CMD ["node", "-e", "fetch('http://127.0.0.1:'+(process.env.PORT||3000)+'/readyz').then(r=>process.exit(r.ok?0:1),()=>process.exit(1))"]
# Exec form: signals reach the process itself, so that it can finish what runs.
CMD ["node", "--max-semi-space-size=64", "--initial-old-space-size=256", "--external-memory-accounted-in-global-limit", "--no-allocation-site-pretenuring", "src/main.ts"]
