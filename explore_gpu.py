import sys,time,torch,numpy as np
sys.path.insert(0,'benchmarks')
from synthetic import make_arrays, SPECIAL
from navi.batches import *
from navi.model import NaviConfig, NaviModel
from navi.objectives import *
from navi.objectives.total import measure_step
torch.backends.cuda.matmul.allow_tf32=True
def peak():
    a=torch.randn(8192,8192,device='cuda',dtype=torch.bfloat16);b=torch.randn(8192,8192,device='cuda',dtype=torch.bfloat16)
    for _ in range(3): a@b
    torch.cuda.synchronize();t=time.time()
    for _ in range(20): a@b
    torch.cuda.synchronize();return 20*2*8192**3/(time.time()-t)/1e12
print('peak',peak(),torch.__version__,flush=True)
SH={'base':dict(num_hidden_layers=12,hidden_size=768,num_attention_heads=12,intermediate_size=3072,vocab_size=30522),'minilm':dict(num_hidden_layers=6,hidden_size=384,num_attention_heads=12,intermediate_size=1536,vocab_size=30522)}
A=make_arrays(20000)
print('tokens/row',A.count_row_tokens().mean())
al=AlignmentConfig(low_negatives='table',same_value_negatives=True)
mk=MaskingConfig(header_share=.4,value_share=.4,unknown_attribute_rate=0)
def run(shape,rows,tables,mode,steps=30,local=0.5,profile=False):
    torch.manual_seed(0); torch._dynamo.reset()
    m=NaviModel(NaviConfig(local_head_share=local,**SH[shape])).cuda().train()
    opt=torch.optim.AdamW(m.parameters(),lr=1e-5,fused=True)
    b=BatchBuilder(A,SPECIAL,masking=mk)
    plan=plan_epoch(np.arange(A.num_rows),A.row_table,SamplerConfig(rows_per_batch=rows,tables_per_batch=tables),seed=0,epoch=0)
    plan=(plan*20)[:steps+10]
    if mode in('layers',):
        for i,l in enumerate(m.layers): m.layers[i]=torch.compile(l,dynamic=True)
        for i,l in enumerate(m.attribute_encoder.layers): m.attribute_encoder.layers[i]=torch.compile(l,dynamic=True)
    def losses(batch,size):
        with torch.autocast('cuda',torch.bfloat16):
            out=m(batch.rows)
            return compute_losses(m,out,batch,al,size)
    if mode=='full': losses=torch.compile(losses,dynamic=True)
    n=0;tok=0;t=None;w=0
    t0=time.time()
    for i,batch in enumerate(prefetch(plan,lambda r:b.build(r,epoch=0).pin(),workers=3,ahead=6)):
        if i==10: torch.cuda.synchronize();print('  warm',round(time.time()-t0,1),end=' ');t=time.time();n=tok=0
        size=measure_step([batch]); g=batch.to('cuda')
        L=losses(g,size); L.total.backward()
        torch.nn.utils.clip_grad_norm_(m.parameters(),1.0)
        opt.step();opt.zero_grad(set_to_none=True)
        n+=len(batch.row_ids);tok+=batch.num_tokens
    torch.cuda.synchronize();dt=time.time()-t
    P=sum(p.numel() for nme,p in m.named_parameters() if 'embeddings' not in nme and 'attribute' not in nme and 'head' not in nme and 'projection' not in nme)
    print(shape,rows,mode,local,'rows/s',round(n/dt),'row-tok/s',round(tok/dt),'TF',round(6*P*2*tok/dt/1e12,1),'mem',round(torch.cuda.max_memory_allocated()/2**30,1),flush=True)
    torch.cuda.reset_peak_memory_stats()
    if profile:
        from torch.profiler import profile as pf,ProfilerActivity
        with pf(activities=[ProfilerActivity.CUDA,ProfilerActivity.CPU]) as p:
            for i in range(3):
                batch=b.build(plan[i],epoch=0);size=measure_step([batch]);g=batch.to('cuda')
                L=losses(g,size);L.total.backward();torch.nn.utils.clip_grad_norm_(m.parameters(),1.0);opt.step();opt.zero_grad()
            torch.cuda.synchronize()
        print(p.key_averages().table(sort_by='cuda_time_total',row_limit=22,max_name_column_width=60))
import traceback
for args in [('base',256,16,'eager'),('base',256,16,'layers',30,0.5,True),('base',32,4,'layers'),('minilm',256,16,'eager'),('minilm',256,16,'layers',30,0.5,True),('minilm',512,16,'layers'),('base',256,16,'full'),('minilm',512,16,'full')]:
    try: run(*args)
    except Exception: traceback.print_exc(limit=3)
# loader alone
b=BatchBuilder(A,SPECIAL,masking=mk);plan=plan_epoch(np.arange(A.num_rows),A.row_table,SamplerConfig(rows_per_batch=256,tables_per_batch=16),seed=0,epoch=0)
for w in (0,1,2,4):
    t=time.time();n=sum(len(x.row_ids) for x in prefetch(plan,lambda r:b.build(r,epoch=0).pin(),workers=w,ahead=8));print('loader',w,n/(time.time()-t))
